"""The stored object: defaults, columns, /scale, /status, and what an older CRD does to a newer status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from llmservice.api.crd import crd_yaml, schema
from llmservice.api.defaults import with_defaults
from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.service import LLMService
from llmservice.api.status import (
    Condition,
    ConditionStatus,
    KnobsStatus,
    LLMServiceStatus,
    Phase,
    RevisionRef,
    SignalsStatus,
    Startup,
    StartupPhase,
)
from tests.cluster.api.conftest import Kubectl
from tests.rule_cases import manifest

pytestmark = pytest.mark.cluster

STATUS = LLMServiceStatus(
    observed_generation=1,
    phase=Phase.SERVING,
    summary="Serving",
    conditions=[
        Condition(
            type=ConditionType.READY,
            status=ConditionStatus.TRUE,
            reason=Reason.SERVING,
            last_transition_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        )
    ],
    replicas=3,
    ready_replicas=2,
    replicas_summary="2/3",
    selector="app.kubernetes.io/instance=columns",
    model="SmolLM2-135M",
    pool="cpu",
    revision=RevisionRef(name="1a2b3c4d", image="triton:1"),
    knobs=KnobsStatus(max_queue_delay="5ms", engine_instances=1, slots=18, replicas=3, seed="5ms"),
    signals=SignalsStatus(queue_depth=4, time_to_first_token_p99="120ms", tokens_per_second=963.5, source="Pods"),
    startup=Startup(phases=[StartupPhase(name="PullImage", seconds=3.5), StartupPhase(name="LoadModel")]),
    warnings=["nothing tunes"],
)


@pytest.fixture
def stored(kubectl: Kubectl) -> Iterator[str]:
    """The name of a service that exists while the test runs."""
    kubectl.must("apply", "-f", "-", document=manifest({}, "columns"))
    yield "columns"
    kubectl.must("delete", "llm", "columns")


def read(kubectl: Kubectl, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(kubectl.must("get", "llm", name, "-o", "json"))
    return document


def report(kubectl: Kubectl, name: str, status: dict[str, Any]) -> None:
    document = {key: value for key, value in manifest({}, name).items() if key != "spec"} | {"status": status}
    kubectl.must(
        "apply", "--server-side", "--subresource=status", "--field-manager=reporter", "-f", "-", document=document
    )


def test_defaults_are_filled_in_as_python_fills_them(kubectl: Kubectl, stored: str) -> None:
    document = read(kubectl, stored)
    assert document["spec"] == with_defaults(manifest({})["spec"], schema()["properties"]["spec"])
    assert LLMService.parse(document).spec == LLMService.parse(manifest({}, stored)).spec


def test_the_columns_tell_the_state(kubectl: Kubectl, stored: str) -> None:
    report(kubectl, stored, STATUS.manifest())
    heads, row = kubectl.must("get", "llmservices", stored).splitlines()
    assert heads.split() == ["NAME", "READY", "STATUS", "REPLICAS", "QUEUE", "TTFT-P99", "TOKENS/S", "MODEL", "AGE"]
    assert row.split()[:8] == ["columns", "True", "Serving", "2/3", "4", "120ms", "963.5", "SmolLM2-135M"]
    wide = kubectl.must("get", "triton-llm", stored, "-o", "wide").splitlines()
    assert wide[0].split()[9:] == ["POOL", "DELAY", "INSTANCES", "REASON"]
    assert wide[1].split()[9:] == ["cpu", "5ms", "1", "Serving"]


def test_the_whole_status_is_stored(kubectl: Kubectl, stored: str) -> None:
    report(kubectl, stored, STATUS.manifest())
    document = read(kubectl, stored)
    assert document["status"] == STATUS.manifest()
    assert LLMServiceStatus.model_validate(document["status"]) == STATUS


def test_a_status_field_of_a_newer_operator_survives_an_older_crd(kubectl: Kubectl, stored: str) -> None:
    report(kubectl, stored, {"phase": "Serving", "decisions": [{"why": "delay up", "inputs": {"arrivals": 3}}]})
    assert read(kubectl, stored)["status"]["decisions"] == [{"why": "delay up", "inputs": {"arrivals": 3}}]


def test_scale_reads_the_selector_and_writes_replicas(kubectl: Kubectl, stored: str) -> None:
    report(kubectl, stored, STATUS.manifest())
    kubectl.must("scale", "llm", stored, "--replicas=5")
    assert read(kubectl, stored)["spec"]["replicas"] == 5
    namespace = read(kubectl, stored)["metadata"]["namespace"]
    path = f"/apis/triton-llm.dev/v1alpha1/namespaces/{namespace}/llmservices/{stored}/scale"
    scale = json.loads(kubectl.must("get", "--raw", path))
    assert scale["status"] == {"replicas": 3, "selector": "app.kubernetes.io/instance=columns"}


def test_kubectl_explain_shows_the_descriptions(kubectl: Kubectl) -> None:
    text = " ".join(kubectl.must("explain", "llmservice.spec.batching.maxQueueDelay").split())
    assert "How long the gate may wait to form a batch" in text


def test_the_crd_is_small_enough() -> None:
    assert len(crd_yaml().encode()) < 256 * 1024
