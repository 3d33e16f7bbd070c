"""A service that the tuner tunes, under load from a pod: what it is asked for, what was seen of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from cluster import images
from tests.e2e.main_job.kube import Kube, Manifest, Service, condition
from tests.e2e.main_job.waiting import eventually
from tests.e2e.main_job.watching import Watch, watching
from tests.serving.open_load import Seen
from tests.serving.paced_pod import LoadPod, latencies, model_folder, p99, paced, packages
from tests.serving.paced_service import Pace

PACE: Final = Pace(step_seconds=0.06, sequence_seconds=0.005, max_sequences=4)
TOKENS: Final = 5
"""Of an answer: with `PACE` a replica gives 50 tokens/s at most, which is 10 answers/s."""
CALM: Final = 4.0
"""Requests/s that one replica holds the objective for with room to spare."""
OBJECTIVE: Final = 2.5
"""Seconds of latency at the 99th percentile; an edge of the gate's buckets."""
LEAST: Final = 100
"""Requests that have a 99th percentile."""
SPEC: Final[Manifest] = {
    "objectives": {"latency": {"p99": f"{OBJECTIVE}s"}},
    "scaling": {"minReplicas": 1, "maxReplicas": 3},
    "tuning": {"bounds": {"maxQueueDelay": {"min": "0ms", "max": "0ms"}}},
}


@dataclass(frozen=True)
class Tuned:
    """The service, its load, and every status it had."""

    service: Service
    load: LoadPod
    watch: Watch

    def replicas(self) -> list[int]:
        """The knob, each stay once, oldest first."""
        found: list[int] = []
        for status in self.watch.statuses:
            count = (status.get("knobs") or {}).get("replicas")
            if count is not None and found[-1:] != [count]:
                found.append(count)
        return found

    def all_serve(self) -> bool:
        """Whether as many replicas serve as the tuner asked for last."""
        count = self.replicas()[-1]
        return self.status().get("replicasSummary") == f"{count}/{count}"

    def status(self) -> Manifest:
        """The newest status, as the watch has it."""
        return self.watch.statuses[-1]

    def tuning(self) -> Manifest:
        """What it tells of the tuner."""
        return self.status().get("tuning") or {}

    def signals_trusted(self) -> Manifest:
        """The condition `SignalsTrusted`."""
        return condition(self.status(), "SignalsTrusted")

    def trusted(self) -> str:
        """Whether the signals are: True, False or Unknown."""
        return str(self.signals_trusted().get("status"))

    def decisions(self) -> str:
        """Why it did what it did, newest first."""
        return " ".join(one["reason"] for one in self.tuning().get("decisions") or ())

    def canary(self) -> Manifest:
        """Which replica tries what; empty where none does."""
        found: Manifest = self.tuning().get("canary") or {}
        return found

    def queue(self) -> float:
        """Requests that wait, as the status has it."""
        return float((self.status().get("signals") or {}).get("queueDepth") or 0)

    def latency(self, since: float, until: float | None = None) -> float:
        """The 99th percentile of requests that were due in a time (None: until now), once all of them are answered."""
        until = self.load.seen().now if until is None else until
        seen = eventually(lambda: self._answered(until), "every request of the time is answered", 150)
        assert seen
        return p99(latencies(seen, since, until))

    def _answered(self, until: float) -> Seen | None:
        seen = self.load.seen()
        return seen if all(due >= until for due in seen.open) else None

    def holds(self, since: float) -> bool:
        """Whether the last `LEAST` requests that came after `since` meet the objective; one that still waits counts."""
        seen = self.load.seen()
        waiting = [(due, seen.now - due) for due in seen.open]
        last = [seconds for due, seconds in sorted([*seen.requests, *waiting]) if due >= since][-LEAST:]
        return len(last) == LEAST and p99(sorted(last)) <= OBJECTIVE


@contextmanager
def tuned(
    kube: Kube, namespace: str, name: str, pace: Pace = PACE, tokens: int = TOKENS, replicas: int = 1, **spec: Any
) -> Iterator[Tuned]:
    """The service, serving with as many replicas, and the pod that loads it, still idle."""
    service = Service(kube, namespace, name)
    load = LoadPod(namespace, lambda path: kube("get", "--raw", path))
    with model_folder() as model, watching(kube, namespace, name) as watch:
        kube.apply(packages(namespace))
        kube.apply(paced(namespace, name, pace, model, **{**SPEC, **spec}))
        for manifest in load.manifests(images.IMAGES["operator"].tag, name, tokens):
            kube.apply(manifest)
        service.wait_serving(f"{replicas}/{replicas}")
        kube("-n", namespace, "wait", "--for=condition=Ready", "pod/load", "--timeout=60s")
        yield Tuned(service, load, watch)
        load.rate(0)
        service.delete()
        kube("-n", namespace, "delete", "pod", "load")
        eventually(lambda: not service.pods(), "its pods are told to go", 60)
