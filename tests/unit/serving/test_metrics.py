"""Numbers are added up in the process and carried to Triton now and then."""

from __future__ import annotations

from typing import Any

import pytest

from llmserving.engine import EngineStatus, FinishReason, Output
from llmserving.engine_metrics import EngineMetrics
from llmserving.metrics import MemoryMetrics, TritonMetrics

pytestmark = pytest.mark.unit


class Family:
    """What `pb_utils.MetricFamily` is to the exporter."""

    COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
    made: list[Family]

    def __init__(self, name: str, description: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.metrics: list[Metric] = []
        type(self).made.append(self)

    def Metric(self, labels: dict[str, str], buckets: list[float] | None = None) -> Metric:  # noqa: N802
        assert (buckets is not None) == (self.kind == self.HISTOGRAM)
        self.metrics.append(Metric(labels))
        return self.metrics[-1]


class Metric:
    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.calls: list[tuple[str, float]] = []

    def increment(self, value: float) -> None:
        self.calls.append(("increment", value))

    def set(self, value: float) -> None:
        self.calls.append(("set", value))

    def observe(self, value: float) -> None:
        self.calls.append(("observe", value))


@pytest.fixture
def families() -> list[Family]:
    Family.made = []
    return Family.made


def exported(families: list[Family]) -> dict[str, list[tuple[str, float]]]:
    return {family.name: [call for metric in family.metrics for call in metric.calls] for family in families}


def test_every_kind_reaches_triton_at_the_latest_at_the_end(families: list[Family]) -> None:
    metrics = TritonMetrics(Family, {"model": "chat"}, period=60)
    counter = metrics.counter("c", "")
    counter.increment()
    counter.increment(2)
    metrics.gauge("g", "").set(5)
    histogram = metrics.histogram("h", "", (1, 2))
    histogram.observe(0.5)
    histogram.observe(1.5)

    metrics.close()

    assert exported(families) == {
        "c": [("increment", 3)],
        "g": [("set", 5)],
        "h": [("observe", 0.5), ("observe", 1.5)],
    }


def test_each_process_labels_its_series_with_an_instance_of_its_own(families: list[Family]) -> None:
    labels: list[dict[str, Any]] = []
    for _ in range(2):
        metrics = TritonMetrics(Family, {"model": "chat"}, period=60)
        metrics.counter("c", "", kind="x").increment()
        metrics.close()
        labels.append(families[-1].metrics[0].labels)
    assert labels[0]["instance"] != labels[1]["instance"]
    assert all(label["model"] == "chat" and label["kind"] == "x" for label in labels)


def test_the_same_name_and_labels_are_one_series() -> None:
    metrics = MemoryMetrics()
    assert metrics.counter("c", "", kind="x") is metrics.counter("c", "", kind="x")
    assert metrics.counter("c", "", kind="x") is not metrics.counter("c", "", kind="y")


def test_steps_are_counted_exactly_by_batch_size() -> None:
    memory = MemoryMetrics()
    metrics = EngineMetrics(memory)
    outputs = [Output(1, "a", (5,)), Output(2, "b", (6, 7), FinishReason.STOP, num_input_tokens=9)]

    metrics.stepped(EngineStatus(waiting=3, running=2, kv_cache_usage=0.5, batch_size=2), outputs, 0.25)
    metrics.stepped(EngineStatus(batch_size=2), [], 0.5)
    metrics.stepped(EngineStatus(batch_size=0), [], 1.0)

    assert memory.value("llm_engine_steps_total", batch_size="2") == 2
    assert memory.value("llm_engine_step_seconds_total", batch_size="2") == 0.75
    assert memory.value("llm_engine_steps_total", batch_size="0") == 0
    assert memory.value("llm_engine_tokens_total", kind="generated") == 3
    assert memory.value("llm_engine_tokens_total", kind="prompt") == 9
