"""The replica that tries other knobs, beside the others, from their histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from llmservice.api.knobs import Knobs
from llmservice.signals.adapters import NATIVE, TENSORRT_LLM, Adapter
from llmservice.signals.canary import Canary
from llmservice.signals.frame import Frame, ReadyPod
from llmservice.signals.measure import measure
from llmservice.signals.trust import contradictions
from llmservice.tuning.measured import CanaryReport, Measured, Replicas, Signals, Steps
from llmservice.tuning.metric import Metric
from llmservice.tuning.settings import Objective
from tests.unit.signals.pods import GATE, Pod

pytestmark = pytest.mark.unit

OBJECTIVE = Objective(Metric.LATENCY, 0.99, 0.3)
ENDS = ("0.1", "0.25", "0.5", "+Inf")


def answering(latencies: Sequence[float], failed: int = 0) -> Pod:
    """A pod that answers with these latencies, in seconds, within the window."""
    pod = Pod()
    for end in ENDS:
        pod.put("llm_request_latency_seconds_bucket", {**GATE, "le": end}, 0)
    pod.scrape(0)
    pod.complete(len(latencies))
    pod.add("llm_gate_requests_total", {**GATE, "outcome": "failed"}, failed)
    for end in ENDS:
        under = sum(latency <= float(end) for latency in latencies)
        pod.add("llm_request_latency_seconds_bucket", {**GATE, "le": end}, under)
    pod.scrape(60)
    return pod


def measured(pods: Sequence[Pod], canary: Canary, adapter: Adapter = NATIVE, instances: int = 1) -> Signals:
    frame = Frame(
        service="chat",
        since=0,
        until=60,
        scrape_interval=15,
        knobs=Knobs(slots=18, engine_instances=instances),
        replicas=Replicas(ready=len(pods)),
        pods=tuple(ReadyPod(f"p{number}", 1000.0) for number in range(len(pods))),
        canary=canary,
    )
    return measure(adapter, frame, {f"p{number}": pod.history for number, pod in enumerate(pods)})


def test_slow_requests_of_the_canary_are_counted_beside_those_of_the_others() -> None:
    pods = [answering([0.05] * 8 + [0.4] * 2, failed=1), answering([0.05] * 20), answering([0.05] * 19 + [0.9])]
    signals = measured(pods, Canary("p0", Knobs(), OBJECTIVE))
    assert signals.canary == CanaryReport(10, 2, 1, 40, 1, 0)
    assert signals.canary_knobs == Knobs()


def test_the_last_bucket_up_to_the_objective_says_what_is_slow() -> None:
    pods = [answering([0.28] * 4), answering([0.2] * 4)]
    signals = measured(pods, Canary("p0", Knobs(), OBJECTIVE))
    assert signals.canary is not None
    assert (signals.canary.slow, signals.canary.control_slow) == (4, 0)


def test_an_objective_below_every_bucket_is_read_at_the_first() -> None:
    pods = [answering([0.05] * 4), answering([0.2] * 4)]
    signals = measured(pods, Canary("p0", Knobs(), Objective(Metric.LATENCY, 0.99, 0.001)))
    assert signals.canary is not None
    assert (signals.canary.slow, signals.canary.control_slow) == (0, 4)


def test_without_an_objective_slow_is_what_one_in_ten_of_the_others_is() -> None:
    pods = [answering([0.4] * 10), answering([0.05] * 95 + [0.4] * 5)]
    signals = measured(pods, Canary("p0", Knobs()))
    assert signals.canary is not None
    assert signals.canary.slow / signals.canary.requests > signals.canary.control_slow / signals.canary.control_requests


@pytest.mark.parametrize(
    ("pods", "canary", "adapter"),
    [
        ([answering([0.1])], Canary("p0", Knobs(), OBJECTIVE), NATIVE),
        ([answering([0.1]), answering([0.1])], Canary("gone", Knobs(), OBJECTIVE), NATIVE),
        ([answering([0.1]), answering([0.1])], Canary("p0", Knobs(), OBJECTIVE), TENSORRT_LLM),
    ],
    ids=["nobody to compare with", "the canary is not read", "an engine without histograms"],
)
def test_where_one_side_is_missing_there_is_no_report(pods: list[Pod], canary: Canary, adapter: Adapter) -> None:
    assert measured(pods, canary, adapter).canary is None


def test_what_a_canary_may_do_with_its_own_knobs_is_no_contradiction() -> None:
    steps = (Steps(40, 200, 70.0),)
    signals = Signals(60, Knobs(slots=18), Replicas(ready=1), steps=steps, running=Measured.of(40))
    assert len(contradictions(signals)) == 2, "larger than the slots, and longer than the window"
    assert contradictions(replace(signals, canary_knobs=Knobs(slots=66, engine_instances=2))) == ()
