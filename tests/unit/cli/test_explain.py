"""The story of a service's tuning."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.status import LLMServiceStatus
from llmservice.cli.explain import story

pytestmark = pytest.mark.unit

TUNING: dict[str, Any] = {
    "outcome": "Hold",
    "reason": "p99 is 300 ms at 40 requests/s, and may be 500 ms",
    "proposed": {"maxQueueDelay": "5ms", "engineInstances": 1, "slots": 18, "replicas": 2},
    "headroom": 0.3,
    "limitingResource": "Compute",
    "nextActionTime": "2026-01-01T00:30:00Z",
    "decisions": [
        {
            "time": "2026-01-01T00:00:00Z",
            "outcome": "Act",
            "reason": "40 requests/s are more than one replica answers in 500 ms",
            "changes": ["replicas 1 -> 2"],
            "inputs": ["arrivals=40", "p99=0.62"],
        }
    ],
}


def told(**changes: Any) -> str:
    knobs = {"maxQueueDelay": "5ms", "engineInstances": 1, "slots": 18, "replicas": 2}
    status = {"knobs": knobs, "tuning": TUNING, **changes}
    return "\n".join(line.plain for line in story("chat", LLMServiceStatus.model_validate(status)))


def test_it_tells_what_is_in_force_what_was_done_and_why() -> None:
    text = told()
    assert "It leaves the knobs where they are" in text
    assert "In force: delay 5ms, 1 engine instance, 18 slots, 2 replicas." in text
    assert "replicas 1 -> 2" in text
    assert "because 40 requests/s are more than one replica answers in 500 ms" in text
    assert "figures: arrivals=40, p99=0.62" in text
    assert "30% of what the objectives allow is unused" in text
    assert "the engine's computing" in text
    assert "No knob moves before 2026-01-01T00:30:00Z" in text
    assert "The model would have" not in text


def test_other_knobs_that_the_model_would_have_are_told() -> None:
    assert "The model would have: 5 replicas." in told(tuning={**TUNING, "proposed": {"replicas": 5}})


def test_signals_that_are_not_trusted_are_told_with_the_cause() -> None:
    condition = {
        "type": "SignalsTrusted",
        "status": "False",
        "reason": "SignalsMissing",
        "message": "Prometheus does not answer",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert "Signals (SignalsMissing): Prometheus does not answer" in told(conditions=[condition])


def test_an_objective_that_cannot_be_met_is_told() -> None:
    assert "No setting reaches latency p99 <= 5 ms" in told(tuning={**TUNING, "infeasible": ["latency p99 <= 5 ms: x"]})


def test_before_the_first_decision_it_says_when_there_will_be_one() -> None:
    assert "nothing has been decided yet" in told(tuning=None)
