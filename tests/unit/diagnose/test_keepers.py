"""Pods that cannot be made, and groups that do not last: what Deployments and LeaderWorkerSets tell of it."""

from __future__ import annotations

import pytest

from llmservice.api.reasons import Reason
from llmservice.diagnose.keepers import KeeperEvent, deployment_finding, missing_pods_finding, recreated_finding

pytestmark = pytest.mark.unit

SET, PODS = "LeaderWorkerSet", "StatefulSet"
REFUSED = 'create Pod chat-1-0 in StatefulSet chat-1 failed error: pods "chat-1-0" is forbidden: exceeded quota: gpus'
MADE = KeeperEvent(PODS, "SuccessfulCreate", "create Pod chat-1-0 in StatefulSet chat-1 successful")
NO_CAUSE = "Failed to create worker statefulset for leader pod chat-1-0"
CAUSE = f'{NO_CAUSE}: statefulsets.apps "chat-1-0" is forbidden: no'
CREATED = KeeperEvent(SET, "GroupsProgressing", "Created worker statefulset for leader pod chat-1-0")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            'pods "chat-1" is forbidden: exceeded quota: gpus, requested: gpu=1',
            Reason.QUOTA_EXCEEDED,
        ),
        ('pods "chat-1" is forbidden: maximum memory usage per Container is 1Gi', Reason.QUOTA_EXCEEDED),
        ('pods "chat-1" is forbidden: violates PodSecurity "restricted:latest": hostPath', Reason.FORBIDDEN),
    ],
)
def test_pods_that_cannot_be_created_are_explained_by_their_deployment(message: str, reason: Reason) -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    finding = deployment_finding({"status": {"conditions": [condition]}})
    assert finding is not None
    assert finding.reason == reason
    assert message in finding.message


def test_a_priority_class_that_is_not_there_is_named_with_its_field() -> None:
    text = 'pods "chat-1" is forbidden: no PriorityClass with name serving was found'
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": text}
    finding = deployment_finding({"status": {"conditions": [condition]}})
    assert finding is not None
    assert finding.message.startswith("there is no PriorityClass 'serving': create it, or correct template.")


def test_pods_of_groups_that_cannot_be_created_are_explained_by_the_last_try() -> None:
    refused = KeeperEvent(PODS, "FailedCreate", REFUSED, count=7)
    finding = missing_pods_finding("chat-1", [MADE, refused])
    assert finding is not None
    assert finding.reason == Reason.QUOTA_EXCEEDED
    assert finding.message.endswith(REFUSED)
    assert missing_pods_finding("chat-1", [refused, MADE]) is None
    assert missing_pods_finding("chat-1", []) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat-1-0", CAUSE),
        ("chat-1", 'Failed to create leader statefulset chat-1: statefulsets.apps "chat-1" is forbidden: no'),
    ],
)
def test_a_set_that_cannot_make_its_stateful_sets_says_why(name: str, text: str) -> None:
    finding = missing_pods_finding(name, [KeeperEvent(SET, "FailedCreate", text), MADE])
    assert finding is not None
    assert (finding.reason, finding.fault) == (Reason.FORBIDDEN, True)
    assert text in finding.message


def test_that_other_parts_of_a_set_progress_hides_no_failure() -> None:
    refused = KeeperEvent(SET, "FailedCreate", CAUSE)
    progress = "Replicas are progressing, with 0 groups ready of total 1 groups"
    other = "Created worker statefulset for leader pod chat-1-1"
    later = [KeeperEvent(SET, "GroupsProgressing", text) for text in (progress, other)]
    assert missing_pods_finding("chat-1-0", [CREATED, refused, *later]) is not None
    assert missing_pods_finding("chat-1-0", [refused, *later, CREATED]) is None


def test_one_leader_s_failure_is_not_told_of_another() -> None:
    refused = KeeperEvent(SET, "FailedCreate", CAUSE)
    assert missing_pods_finding("chat-1-1", [refused]) is None
    assert missing_pods_finding("chat-1-0-1", [refused]) is None
    assert missing_pods_finding("chat-1", [refused]) is None


def test_a_failure_without_a_cause_is_not_called_a_refusal() -> None:
    failed = KeeperEvent(SET, "FailedCreate", NO_CAUSE, at=10)
    finding = missing_pods_finding("chat-1-0", [CREATED, failed])
    assert finding is not None
    assert (finding.reason, finding.fault, finding.replica) == (Reason.STARTING, False, "chat-1-0")
    assert "the cause is in the log of LeaderWorkerSet's controller" in finding.message
    before, after = (KeeperEvent(PODS, "SuccessfulCreate", "create Pod chat-1-0-1", at=at) for at in (9, 10))
    assert missing_pods_finding("chat-1-0", [failed, before]) is not None
    assert missing_pods_finding("chat-1-0", [failed, after]) is None, "the StatefulSet was there already"


@pytest.mark.parametrize("reason", ["RecreateGroupOnPodRestart", "RecreateGroup"], ids=["0.5.1 to 0.8", "from 0.9"])
def test_a_group_that_starts_again_and_again_is_a_fault_and_names_the_pod_that_ended(reason: str) -> None:
    ends = [
        KeeperEvent(SET, reason, f"Worker pod {pod} failed, deleted leader pod chat-1-0 to recreate group 0", count)
        for pod, count in (("chat-1-0", 2), ("chat-1-0-1", 1))
    ]
    often = recreated_finding("chat-1-0", 2, ends)
    assert often is not None
    assert (often.reason, often.fault, often.replica) == (Reason.CRASH_LOOP, True, "chat-1-0")
    assert "3 times" in often.message
    assert "kubectl logs -f chat-1-0-1" in often.message
    assert recreated_finding("chat-1-1", 2, ends) is None


def test_nodes_that_are_drained_one_after_the_other_are_no_fault() -> None:
    drained = [
        KeeperEvent(SET, "RecreateGroup", f"Worker pod {pod} failed, deleted leader pod chat-1-0 to recreate group 0")
        for pod in ("chat-1-0", "chat-1-0-1", "chat-1-0-2")
    ]
    assert recreated_finding("chat-1-0", 3, drained) is None
    assert recreated_finding("chat-1-0", 2, drained) is not None
