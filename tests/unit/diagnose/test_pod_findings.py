"""Each state of a pod is read as its cause, and many pods as one cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmservice.api.reasons import Reason
from llmservice.diagnose.chain import pod_finding, service_finding
from llmservice.diagnose.finding import Evidence, Finding
from llmservice.diagnose.pod import read_pod
from llmservice.diagnose.triton_log import model_failure
from tests.unit.diagnose.cases import CASES
from tests.unit.diagnose.cases_before_start import CASES_BEFORE_START
from tests.unit.diagnose.cases_of_kills import CASES_OF_KILLS
from tests.unit.diagnose.pod_cases import LOGS, RUNNING, Case, triton

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", [*CASES_BEFORE_START, *CASES, *CASES_OF_KILLS], ids=lambda case: case.name)
def test_a_pod_s_state_is_read_as_its_cause(case: Case) -> None:
    manifest = {
        "metadata": {
            "name": "chat-1",
            "uid": "u",
            "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
            "annotations": {"triton-llm.dev/claimed": case.claimed},
        },
        "spec": {
            "schedulingGates": [{"name": gate} for gate in case.gates],
            "initContainers": [{"name": "repository"}, {"name": "weights"}],
            "containers": [{"name": "triton", "resources": {"limits": case.limits}}],
        },
        "status": case.status,
    }
    evidence = Evidence(read_pod(manifest, "revision"), case.events, case.log, case.weights_log)
    finding = pod_finding(evidence)
    assert finding is not None
    assert finding.reason == case.reason
    assert case.says in finding.message
    assert finding.fault == case.fault
    assert finding.pod == "chat-1"
    assert "rpc error" not in finding.message


@pytest.mark.parametrize(
    "status",
    [{"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": triton(RUNNING)}],
)
def test_a_pod_that_serves_or_leaves_has_no_finding(status: dict[str, Any]) -> None:
    manifest: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {}, "status": status}
    assert pod_finding(Evidence(read_pod(manifest, "revision"))) is None
    leaving = {**manifest, "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    leaving["status"] = {}
    assert pod_finding(Evidence(read_pod(leaving, "revision"))) is None


def test_a_fault_explains_a_service_before_progress_does_and_the_earlier_cause_before_the_later() -> None:
    loading = Finding(Reason.LOADING_MODEL, "loads", "a", fault=False)
    crash = Finding(Reason.CRASH_LOOP, "ends", "b")
    memory = Finding(Reason.OUT_OF_MEMORY, "too small", "c")
    assert service_finding([loading, crash, memory]) == memory
    assert service_finding([]) is None
    two = service_finding([crash, Finding(Reason.CRASH_LOOP, "ends", "d")])
    assert two is not None
    assert two.message == "2 replicas: ends"


def test_accelerators_that_are_missing_are_counted_over_the_replicas() -> None:
    waits = [Finding(Reason.WAITING_FOR_GPU, "no node has 1 nvidia.com/gpu free", str(number)) for number in range(3)]
    found = service_finding(waits)
    assert found is not None
    assert found.message == "3 replicas wait: no node has 1 nvidia.com/gpu free"


def test_how_many_accelerators_are_missing_and_where_is_said() -> None:
    taken = Finding(Reason.WAITING_FOR_GPU, "no node has 2 free", lacks=(("nvidia.com/gpu", 2),))
    found = service_finding([replace(taken, pod=str(number)) for number in range(3)], "a100-80gb")
    assert found is not None
    assert found.message == "3 replicas wait for 6 nvidia.com/gpu in pool a100-80gb: no node has 2 free"


@pytest.mark.parametrize(
    ("log", "model", "text"),
    [
        ("engine_failed.log", "chat-engine", "FileNotFoundError: no *.safetensors under /models/smollm2"),
        ("engine_failed_iso.log", "chat-engine", "FileNotFoundError: no *.safetensors under /models/smollm2"),
        ("bad_config.log", "chat", "failed to read text proto from repo/chat/config.pbtxt (7:6: Message type"),
    ],
)
def test_triton_s_own_words_are_found_in_its_log(log: str, model: str, text: str) -> None:
    """The logs are tritonserver 2.51's own."""
    failure = model_failure((LOGS / log).read_text())
    assert failure is not None
    assert failure.model == model
    assert failure.text.startswith(text)


def test_a_log_without_a_failure_gives_none() -> None:
    assert model_failure("I1130 model_lifecycle.cc:839] \"successfully loaded 'chat'\"\n") is None
