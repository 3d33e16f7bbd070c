"""Status tells the truth, changes only when it has something new to say, and events tell of transitions alone."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.reasons import ConditionType
from llmservice.api.status import SignalsStatus
from llmservice.diagnose.pod import Pod, read_pod
from llmservice.kube import resources
from llmservice.reconcile.report import differs
from llmservice.reconcile.startup_phases import phases
from llmservice.reconcile.world import World
from llmservice.signals.engine_start import EngineStart
from tests.unit.reconcile.small_cluster import KEY, SmallCluster

pytestmark = pytest.mark.unit


async def test_every_condition_is_there_with_the_generation_it_was_judged_for(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    conditions = cluster.status()["conditions"]
    assert [one["type"] for one in conditions] == [kind.value for kind in ConditionType]
    assert {one["observedGeneration"] for one in conditions} == {1}
    assert cluster.condition("SignalsTrusted")["status"] == "Unknown"


async def test_the_time_of_a_transition_moves_only_with_the_status(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    before = cluster.condition("Ready")["lastTransitionTime"]
    cluster.user_applies(replicas=2)
    await cluster.converge()
    ready = cluster.condition("Ready")
    assert ready["message"] == "2 of 2 replicas serve"
    assert ready["observedGeneration"] == 2
    assert ready["lastTransitionTime"] == before
    cluster.user_applies(replicas=0)
    await cluster.converge()
    assert cluster.condition("Ready")["lastTransitionTime"] > before


async def test_events_tell_transitions_once(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    for _ in range(3):
        await cluster.reconcile()
    assert cluster.events() == [("Normal", "Starting"), ("Normal", "Serving")]
    cluster.user_applies(placement={"pool": "nowhere"})
    await cluster.converge()
    assert cluster.events()[-1] == ("Warning", "UnknownPool")
    assert len(cluster.events()) == 3


async def test_an_update_is_told_with_its_way(cluster: SmallCluster) -> None:
    cluster.user_applies(replicas=2)
    await cluster.converge()
    cluster.user_applies({"engine": {"image": "registry.example/triton:2"}}, replicas=2)
    await cluster.reconcile()
    cluster.controllers_act()
    await cluster.reconcile()
    progressing = cluster.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "Updating")
    assert "each new replica is ready before an old one leaves" in progressing["message"]
    assert cluster.status()["summary"] == "Updating"
    assert cluster.condition("Ready")["status"] == "True"


async def test_a_status_written_by_a_newer_operator_does_not_stop_an_older_one(cluster: SmallCluster) -> None:
    cluster.user_applies()
    cluster.kube.set_status(
        resources.LLM_SERVICE, *KEY, {"conditions": [{"type": "Later", "status": "Maybe"}], "knobs": {"warp": 9}}
    )
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"


async def test_the_scale_subresource_finds_its_selector_and_count(cluster: SmallCluster) -> None:
    cluster.user_applies(replicas=2)
    await cluster.converge()
    selector = dict(part.split("=") for part in cluster.status()["selector"].split(","))
    labels = cluster.kube.peek(resources.POD, KEY[0], cluster.pods()[0])["metadata"]["labels"]
    assert selector.items() <= labels.items()
    assert cluster.status()["replicas"] == 2


def test_a_new_measurement_of_the_same_figures_is_no_write() -> None:
    def status(at: str, depth: float) -> Any:
        from llmservice.api.status import LLMServiceStatus

        signals = SignalsStatus.model_validate({"queueDepth": depth, "observedAt": at})
        return LLMServiceStatus(signals=signals)

    stored = status("2026-01-01T00:00:00Z", 3).manifest()
    world = World(KEY, service={"metadata": {"name": "chat"}, "status": stored})
    assert not differs(status("2026-01-01T00:05:00Z", 3), world)
    assert differs(status("2026-01-01T00:05:00Z", 4), world)


def test_the_phases_of_a_start_are_the_times_that_kubernetes_kept() -> None:
    pod = _serving_pod()
    assert [(phase.name, phase.seconds) for phase in phases(pod)] == [
        ("Schedule", 1.0),
        ("PullImage", 10.0),
        ("FetchWeights", 60.0),
        ("LoadModel", 20.0),
    ]


def _serving_pod() -> Pod:
    return read_pod(
        {
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {},
            "status": {
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:40Z"},
                ],
                "initContainerStatuses": [
                    _ended("repository", "2026-01-01T00:00:11Z", "2026-01-01T00:00:12Z"),
                    _ended("weights", "2026-01-01T00:00:13Z", "2026-01-01T00:01:13Z"),
                ],
                "containerStatuses": [
                    {"name": "triton", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:01:20Z"}}}
                ],
            },
        },
        "triton-llm.dev/revision",
    )


def test_an_engine_that_tells_splits_what_kubernetes_sees_as_one_phase() -> None:
    pod = _serving_pod()
    found = {phase.name: phase.seconds for phase in phases(pod, EngineStart(12.34, 3.0))}
    assert (found["LoadModel"], found["WarmUp"], found["BecomeReady"]) == (12.3, 3.0, 4.7)
    assert {phase.name: phase.seconds for phase in phases(pod, EngineStart(100.0, 3.0))}["WarmUp"] == 0.0


def _ended(name: str, begun: str, ended: str) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": 0, "startedAt": begun, "finishedAt": ended}}}


async def test_preferred_sizes_above_the_plan_are_a_warning_of_the_status() -> None:
    cluster = SmallCluster()
    cluster.user_applies(batching={"mode": "Dynamic", "preferredBatchSizes": [4, 64]})
    await cluster.converge()
    said = "spec.batching.preferredBatchSizes: No batch of 64 is formed"
    assert any(warning.startswith(said) for warning in cluster.status()["warnings"])
    valid = cluster.condition("SpecValid")
    assert (valid["status"], valid["reason"]) == ("True", "AcceptedWithWarnings")
    assert said in valid["message"]
