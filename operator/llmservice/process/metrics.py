"""The operator's own metrics, in one registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llmservice import __version__
from llmservice.kube.requests import Answered
from llmservice.process.state import ProcessState
from llmservice.reconcile.work_queue import Key

PREFIX: Final = "llmservice_operator"
PASS_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class OperatorMetrics:
    """What the operator counts as it goes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._passes = Counter(f"{PREFIX}_reconcile", "Passes of the loop", registry=self.registry)
        self._errors = Counter(f"{PREFIX}_reconcile_errors", "Passes that failed", registry=self.registry)
        self._seconds = Histogram(
            f"{PREFIX}_reconcile_seconds", "Seconds of one pass", buckets=PASS_BUCKETS, registry=self.registry
        )
        self._calls = Counter(
            f"{PREFIX}_api_requests",
            "Requests to the API server",
            ["verb", "resource", "status"],
            registry=self.registry,
        )

    def passed(self, _key: Key, seconds: float, failed: bool) -> None:
        """Counts one pass."""
        self._passes.inc()
        self._seconds.observe(seconds)
        if failed:
            self._errors.inc()

    def answered(self, call: Answered) -> None:
        """Counts one request to the API server."""
        self._calls.labels(call.verb, call.resource, str(call.status)).inc()


class StateCollector(Collector):
    """What is read at the moment of the scrape: queue, leadership, loop lag, readiness of each service."""

    def __init__(self, state: ProcessState) -> None:
        self._state = state

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the metrics depend on what is known when asked."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now."""
        yield _gauge("build_info", "The operator's version", 1, {"version": __version__})
        yield _gauge("leader", "Whether this process leads", float(self._state.leads()))
        yield _gauge("loop_lag_seconds", "How late the event loop is", self._state.loop_lag)
        queue = self._state.queue
        if queue is not None:
            yield _gauge("queue_depth", "Services that wait for their pass", queue.depth)
            yield _gauge("queue_longest_running_seconds", "Age of the oldest running pass", queue.longest_running)
            yield CounterMetricFamily(f"{PREFIX}_queue_retries", "Passes repeated after a failure", queue.retries)
        ready = GaugeMetricFamily("llmservice_ready", "Whether a service answers", labels=["namespace", "name"])
        for (namespace, name), value in sorted(self._state.services().items()):
            ready.add_metric([namespace, name], float(value))
        yield ready
        desired = GaugeMetricFamily(
            "llmservice_desired_replicas", "Replicas that the tuner would have", labels=["namespace", "name"]
        )
        for (namespace, name), count in sorted(self._state.desired_replicas().items()):
            desired.add_metric([namespace, name], float(count))
        yield desired


def _gauge(name: str, text: str, value: float, labels: Mapping[str, str] | None = None) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=list(labels or {}))
    gauge.add_metric(list((labels or {}).values()), value)
    return gauge
