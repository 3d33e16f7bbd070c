"""The status page of a service."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from llmservice.cli.reading import _context_namespace
from llmservice.cli.status import status_view

pytestmark = pytest.mark.unit

TIME = "2026-11-30T05:00:00Z"


def page(status: dict[str, Any], events: list[dict[str, Any]] | None = None, generation: int = 1) -> str:
    metadata = {"name": "chat", "namespace": "prod", "generation": generation}
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(status_view({"metadata": metadata, "status": status}, events or []))
    return console.export_text()


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": TIME}


def test_a_service_the_operator_has_not_seen_says_so() -> None:
    assert "not seen by the operator yet" in page({})


def test_the_headline_has_what_one_asks_first() -> None:
    text = page({"summary": "Serving", "replicasSummary": "2/2", "model": "smollm2", "pool": "cpu"})
    assert "prod/chat: Serving" in text
    assert "2/2 replicas, smollm2, pool cpu" in text


def test_a_spec_not_yet_seen_is_told() -> None:
    assert "not yet seen the latest spec" in page({"observedGeneration": 1, "summary": "Serving"}, generation=2)
    assert "not yet seen" not in page({"observedGeneration": 2, "summary": "Serving"}, generation=2)


def test_each_condition_shows_reason_and_next_action() -> None:
    text = page({"conditions": [condition("Ready", "False", "ImagePullFailed", "not found: check spec.engine.image")]})
    assert "ImagePullFailed" in text
    assert "check spec.engine.image" in text


def test_knobs_signals_and_start_are_one_line_each() -> None:
    text = page(
        {
            "knobs": {"maxQueueDelay": "5ms", "engineInstances": 1, "slots": 18, "replicas": 2},
            "signals": {"queueDepth": 3, "timeToFirstTokenP99": "210ms", "source": "Pods"},
            "startup": {"phases": [{"name": "Schedule", "seconds": 0.0}, {"name": "LoadModel"}]},
        }
    )
    assert "knobs: delay 5ms, engine instances 1, slots 18, replicas 2" in text
    assert "signals: queue 3, TTFT p99 210ms (from Pods)" in text
    assert "start: Schedule 0 s, LoadModel …" in text


def test_events_come_last_with_their_time() -> None:
    text = page({}, [{"metadata": {}, "lastTimestamp": TIME, "type": "Warning", "reason": "CrashLoop", "message": "m"}])
    assert TIME in text
    assert "CrashLoop" in text


def test_the_namespace_is_that_of_the_context_in_any_of_several_kubeconfigs(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("current-context: one\ncontexts: [{name: one, context: {cluster: x}}]\n")
    (tmp_path / "b").write_text("contexts: [{name: two, context: {namespace: chat}}]\n")
    both = Path(os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "absent")]))
    assert _context_namespace(both, None) == "default"
    assert _context_namespace(both, "two") == "chat"


@pytest.mark.parametrize("content", ["5", "[1]", "a: [", "", "\x00"])
def test_a_kubeconfig_that_is_none_names_no_namespace(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    assert _context_namespace(path, None) == "default"
