"""The operator goes, dies, is upgraded or finds nothing to do; what it has made serves on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.main_job.asking import ask
from tests.e2e.main_job.conftest import NewSpace, Started
from tests.e2e.main_job.faults import Fault, manifest
from tests.e2e.main_job.kube import Kube, Manifest, Service
from tests.e2e.main_job.node_processes import kill
from tests.e2e.main_job.operator_release import NAMESPACE, OperatorRelease
from tests.e2e.main_job.waiting import eventually

pytestmark = pytest.mark.e2e

# Children and a pod, at no cost: its image is nowhere.
IDLE = Fault("idle", "ImagePullFailed", (), {"engine": {"backend": "torch", "image": "localhost/no-such-image:1"}})


def test_a_service_deleted_while_it_is_away_takes_its_children_along(
    kube: Kube, operator: OperatorRelease, new_space: NewSpace
) -> None:
    service = idle_service(kube, new_space("away"))
    operator.scale(0)
    try:
        service.delete()
        eventually(lambda: not service.children(), "all children are gone", 60)
    finally:
        operator.scale(2)
    leader = operator.leader()
    eventually(lambda: operator.figure(leader, "queue_depth") == 0, "the operator works again", 60)
    assert operator.faults(service.namespace) == []


def test_a_namespace_deleted_with_a_service_in_it_goes(
    kube: Kube, operator: OperatorRelease, new_space: NewSpace
) -> None:
    service = idle_service(kube, new_space("leaving"))
    kube("delete", "namespace", service.namespace, "--timeout=90s")
    assert operator.faults(service.namespace) == []


def test_an_upgrade_of_it_rolls_nothing_and_writes_nothing(
    smollm2: Started, operator: OperatorRelease, kube: Kube
) -> None:
    service = smollm2.service
    before, pods = versions(service), {pod["metadata"]["name"] for pod in operator.pods()}
    operator.install("--set", "podAnnotations.round=second")
    eventually(lambda: not pods & {pod["metadata"]["name"] for pod in operator.pods()}, "its pods are others", 60)
    leader = operator.leader()
    eventually(lambda: operator.figure(leader, "reconcile_total") >= 1, "it has looked at the services", 60)
    eventually(lambda: operator.figure(leader, "queue_depth") == 0, "it has looked at all of them", 60)
    assert versions(service) == before


def test_another_takes_over_when_the_leader_dies(
    smollm2: Started, operator: OperatorRelease, kube: Kube, new_space: NewSpace
) -> None:
    namespace, dead = new_space("takeover"), operator.leader()
    seconds = operator.lease()["leaseDurationSeconds"]
    with asking(smollm2.service) as answers:
        kill(kube.get("pod", NAMESPACE, dead), "operator")
        kube("-n", NAMESPACE, "delete", "pod", dead, "--grace-period=0", "--force")
        kube.apply(manifest(IDLE, namespace, ""))
        service = Service(kube, namespace, IDLE.name)
        eventually(service.pods, "the other operator has made the pods", seconds + 60)
        assert operator.leader() != dead
    assert answers.given > 0
    assert answers.failed == []
    service.delete()


@dataclass
class Answers:
    """What became of questions asked one after the other."""

    given: int = 0
    failed: list[str] = field(default_factory=list)


@contextmanager
def asking(service: Service) -> Iterator[Answers]:
    """Asks again and again until the block ends."""
    answers, ended = Answers(), threading.Event()

    def run(port: int) -> None:
        while not ended.is_set():
            try:
                ask(port, service.name, max_tokens=2)
                answers.given += 1
            except OSError as error:
                answers.failed.append(str(error))

    with service.kube.forward(service.namespace, f"service/{service.name}", 8000) as (port,):
        thread = threading.Thread(target=run, args=(port,), daemon=True)
        thread.start()
        try:
            yield answers
        finally:
            ended.set()
            thread.join(timeout=60)


def idle_service(kube: Kube, namespace: str) -> Service:
    """A service with all its children and a pod that never starts."""
    kube.apply(manifest(IDLE, namespace, ""))
    service = Service(kube, namespace, IDLE.name)
    eventually(service.pods, "the service has a pod", 60)
    return service


def versions(service: Service) -> dict[str, Any]:
    """The Deployments' versions and the pods."""
    deployments = service.kube.list("deployments", service.namespace, service.selector)
    return {one["metadata"]["uid"]: identity(one) for one in [*deployments, *service.pods()]}


def identity(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata["name"], metadata["resourceVersion"] if manifest["kind"] == "Deployment" else ""
