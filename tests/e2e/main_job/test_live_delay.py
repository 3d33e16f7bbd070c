"""The delay of a serving replica changes: at once, without a restart, without a lost answer, and for good."""

from __future__ import annotations

import base64
from functools import partial
from http.client import HTTPException

import pytest

from tests.e2e.main_job.asking import ANSWER, ask, gate_config
from tests.e2e.main_job.conftest import Started
from tests.e2e.main_job.kube import Kube, Manifest, Service
from tests.e2e.main_job.node_processes import kill
from tests.e2e.main_job.under_load import loaded
from tests.e2e.main_job.waiting import eventually

pytestmark = pytest.mark.e2e


def test_it_changes_under_load_and_nothing_is_lost(dynamic: Started, kube: Kube) -> None:
    service = dynamic.service
    before = fingerprint(only_pod(service))
    with (
        kube.forward(service.namespace, f"service/{service.name}", 8000) as (port,),
        loaded(port, service.name, seconds=8) as tally,
    ):
        for delay in ("40ms", "1ms"):
            change_delay(service, delay)
            eventually(partial(runs_with, service, delay), f"Triton runs with {delay}", 60)
    assert (tally.failed, tally.short) == (0, 0), tally.errors[:3]
    assert tally.answered >= 8
    assert fingerprint(only_pod(service)) == before
    revision = service.status()["revision"]["name"]
    rendered = kube.get("configmap", service.namespace, f"{service.name}-{revision}")["data"]
    assert any("max_queue_delay_microseconds: 1000\n" in text for text in rendered.values()), rendered


def test_a_container_that_starts_again_gets_the_changed_delay_again(dynamic: Started, kube: Kube) -> None:
    service = dynamic.service
    change_delay(service, "30ms")
    eventually(lambda: runs_with(service, "30ms"), "Triton runs with 30ms", 60)
    pod = only_pod(service)
    restarts = triton_of(pod)["restartCount"]
    kill(pod, "tritonserver")
    eventually(lambda: triton_of(only_pod(service))["restartCount"] > restarts, "the container starts again", 60)
    eventually(lambda: triton_of(only_pod(service))["ready"], "it is ready again", 90)
    service.wait_serving(seconds=90)
    eventually(lambda: runs_with(service, "30ms"), "Triton runs with 30ms again", 60)
    assert only_pod(service)["metadata"]["uid"] == pod["metadata"]["uid"]
    with kube.forward(service.namespace, f"service/{service.name}", 8000) as (port,):
        assert ask(port, service.name)["text_output"] == ANSWER


def change_delay(service: Service, delay: str) -> None:
    service.patch({"batching": {"maxQueueDelay": delay}})


def runs_with(service: Service, delay: str) -> bool:
    """Whether status says so and the replica's Triton does, which may be about to end or not there yet."""
    if service.status()["knobs"]["maxQueueDelay"] != delay:
        return False
    secret = service.kube.get("secret", service.namespace, f"{service.name}-triton")
    token = base64.b64decode(secret["data"]["token"]).decode()
    pod = only_pod(service)["metadata"]["name"]
    try:
        with service.kube.forward(service.namespace, f"pod/{pod}", 8000) as (port,):
            batching = gate_config(port, service.name, token)["dynamic_batching"]
    except (OSError, HTTPException):
        return False
    return str(batching["max_queue_delay_microseconds"]) == delay.replace("ms", "000")


def only_pod(service: Service) -> Manifest:
    pods = service.pods()
    assert len(pods) == 1, [pod["metadata"]["name"] for pod in pods]
    return pods[0]


def triton_of(pod: Manifest) -> Manifest:
    found: Manifest = next(one for one in pod["status"]["containerStatuses"] if one["name"] == "triton")
    return found


def fingerprint(pod: Manifest) -> tuple[str, int, str]:
    """What a restart or a replacement would change."""
    triton = triton_of(pod)
    return pod["metadata"]["uid"], triton["restartCount"], triton["containerID"]
