"""The stored object: defaults, columns, /scale, /status, and what an older CRD does to a newer status.

Objects are stored under a twin of the CRD in a group of its own: an operator that happens to run in this cluster would
write the status of a real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from llmservice.api.crd import crd, crd_yaml, schema
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
from tests.cluster_fixtures import wait_established
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


@dataclass(frozen=True)
class Twin:
    """The CRD again, under another group, and one object of it."""

    kubectl: Kubectl
    group: str
    name: str = "columns"

    @property
    def resource(self) -> str:
        return f"llmservices.{self.group}"

    @property
    def manifest(self) -> dict[str, Any]:
        return manifest({}, self.name) | {"apiVersion": f"{self.group}/v1alpha1"}

    def create_definition(self) -> None:
        definition = crd()
        definition["metadata"]["name"] = self.resource
        definition["spec"]["group"] = self.group
        del definition["spec"]["names"]["shortNames"], definition["spec"]["names"]["categories"]
        self.kubectl.must("create", "-f", "-", document=definition)
        wait_established(self.kubectl.must, self.resource, definition["spec"]["names"]["kind"])

    def read(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.kubectl.must("get", self.resource, self.name, "-o", "json"))
        return document

    def columns(self, *options: str) -> list[list[str]]:
        return [line.split() for line in self.kubectl.must("get", self.resource, self.name, *options).splitlines()]

    def report(self, status: dict[str, Any]) -> None:
        document = {key: value for key, value in self.manifest.items() if key != "spec"} | {"status": status}
        options = ("--server-side", "--subresource=status", "--field-manager=reporter")
        self.kubectl.must("apply", *options, "-f", "-", document=document)


@pytest.fixture(scope="module")
def definition(kubectl: Kubectl) -> Iterator[Twin]:
    twin = Twin(kubectl, f"twin-{uuid4().hex[:8]}.triton-llm.dev")
    twin.create_definition()
    yield twin
    kubectl.must("delete", "crd", twin.resource)


@pytest.fixture
def stored(definition: Twin) -> Iterator[Twin]:
    """A stored service that nobody reconciles."""
    definition.kubectl.must("apply", "-f", "-", document=definition.manifest)
    yield definition
    definition.kubectl.must("delete", definition.resource, definition.name)


def test_defaults_are_filled_in_as_python_fills_them(stored: Twin) -> None:
    document = stored.read()
    assert document["spec"] == with_defaults(manifest({})["spec"], schema()["properties"]["spec"])
    assert LLMService.parse(document).spec == LLMService.parse(manifest({})).spec


def test_the_columns_tell_the_state(stored: Twin) -> None:
    stored.report(STATUS.manifest())
    heads, row = stored.columns()
    assert heads == ["NAME", "READY", "STATUS", "REPLICAS", "QUEUE", "TTFT-P99", "TOKENS/S", "MODEL", "AGE"]
    assert row[:8] == ["columns", "True", "Serving", "2/3", "4", "120ms", "963.5", "SmolLM2-135M"]
    heads, row = stored.columns("-o", "wide")
    assert heads[9:] == ["POOL", "DELAY", "INSTANCES", "REASON", "WEIGHTS"]
    assert row[9:] == ["cpu", "5ms", "1", "Serving"]


def test_the_whole_status_is_stored(stored: Twin) -> None:
    stored.report(STATUS.manifest())
    status = stored.read()["status"]
    assert status == STATUS.manifest()
    assert LLMServiceStatus.model_validate(status) == STATUS


def test_a_status_field_of_a_newer_operator_survives_an_older_crd(stored: Twin) -> None:
    decisions = [{"why": "delay up", "inputs": {"arrivals": 3}}]
    stored.report({"phase": "Serving", "decisions": decisions})
    assert stored.read()["status"]["decisions"] == decisions


def test_scale_reads_the_selector_and_writes_replicas(stored: Twin) -> None:
    stored.report(STATUS.manifest())
    stored.kubectl.must("scale", stored.resource, stored.name, "--replicas=5")
    assert stored.read()["spec"]["replicas"] == 5
    base = f"/apis/{stored.group}/v1alpha1/namespaces/{stored.kubectl.namespace}/llmservices"
    scale = json.loads(stored.kubectl.must("get", "--raw", f"{base}/{stored.name}/scale"))
    assert scale["status"] == {"replicas": 3, "selector": "app.kubernetes.io/instance=columns"}


def test_short_name_and_category_find_the_services(kubectl: Kubectl) -> None:
    for word in ("llm", "triton-llm", "llmservice"):
        assert "No resources found" in kubectl("get", word).stderr


def test_kubectl_explain_shows_the_descriptions(kubectl: Kubectl) -> None:
    text = " ".join(kubectl.must("explain", "llmservice.spec.batching.maxQueueDelay").split())
    assert "How long the gate may wait to form a batch" in text


def test_the_crd_is_small_enough() -> None:
    assert len(crd_yaml().encode()) < 256 * 1024
