"""Pods that cannot be made, and groups that do not last: what Deployments and LeaderWorkerSets tell of it."""

from __future__ import annotations

import pytest

from llmservice.api.reasons import Reason
from llmservice.diagnose.keepers import KeeperEvent, deployment_finding, missing_pods_finding, recreated_finding

pytestmark = pytest.mark.unit

SET, PODS = "LeaderWorkerSet", "StatefulSet"
REFUSED = 'create Pod chat-1-0 in StatefulSet chat-1 failed error: pods "chat-1-0" is forbidden: exceeded quota: gpus'
MADE = KeeperEvent(PODS, "SuccessfulCreate", "create Pod chat-1-0 in StatefulSet chat-1 successful")


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
    finding = missing_pods_finding([MADE, refused])
    assert finding is not None
    assert finding.reason == Reason.QUOTA_EXCEEDED
    assert finding.message.endswith(REFUSED)
    assert missing_pods_finding([refused, MADE]) is None
    assert missing_pods_finding([]) is None


def test_a_set_that_cannot_make_its_stateful_sets_is_heard_beside_one_that_makes_pods() -> None:
    text = 'Failed to create worker statefulset for leader pod chat-1-0: statefulsets.apps "chat-1-0" is forbidden: no'
    finding = missing_pods_finding([KeeperEvent(SET, "FailedCreate", text), MADE])
    assert finding is not None
    assert finding.reason == Reason.FORBIDDEN
    assert text in finding.message


def test_a_group_that_starts_again_and_again_is_a_fault_and_names_the_pod_that_ended() -> None:
    ends = [
        KeeperEvent(SET, "RecreateGroup", f"Worker pod {pod} failed, deleted leader pod chat-1-0 to recreate group 0")
        for pod in ("chat-1-0", "chat-1-0-1")
    ]
    assert recreated_finding("chat-1-0", ends[:1]) is None, "a node may have been drained"
    twice = recreated_finding("chat-1-0", ends)
    assert twice is not None
    assert (twice.reason, twice.fault, twice.replica) == (Reason.CRASH_LOOP, True, "chat-1-0")
    assert "2 times" in twice.message
    assert "kubectl logs -f chat-1-0-1" in twice.message
    assert recreated_finding("chat-1-1", ends) is None
