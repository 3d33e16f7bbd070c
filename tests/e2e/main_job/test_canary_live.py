"""A second engine instance, tried on one of three replicas of a real cluster: adopted where good, undone where bad.

Both services compute one request at a time (mode None), 60 ms each, and are asked for more than one instance can hold
the objective for. With `good` instances do not slow each other down, with `bad` both take two and a half times as long,
which no model foretells. Real are the operator, its chart, the Prometheus, the pods, Triton, its in-place change, the
gate, the slots and the counters. The tests are two stories that run side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

import pytest

from cluster import monitoring
from cluster.settings import Settings
from llmservice.api.knobs import SLOT_LOOKAHEAD
from tests.e2e.main_job.conftest import NewSpace
from tests.e2e.main_job.kube import Kube, Manifest
from tests.e2e.main_job.operator_release import OperatorRelease
from tests.e2e.main_job.tuned import Tuned, tuned
from tests.e2e.main_job.waiting import eventually, stays
from tests.serving.paced_service import Pace

pytestmark = pytest.mark.e2e

REPLICAS: Final = 3
RATE: Final = 13.0 * REPLICAS
"""Requests/s: one instance of each replica takes 16.7 at most, and misses the objective before that."""
FACTORS: Final = {"good": 1.0, "bad": 2.5}
SPEC: Final[Manifest] = {
    "batching": {"mode": "None"},
    "objectives": {"latency": {"p99": "500ms"}},
    "scaling": {"minReplicas": REPLICAS, "maxReplicas": REPLICAS},
    "tuning": {"bounds": {"engineInstances": {"min": 1, "max": 2}}},
}
MEMORY: Final = "2Gi"
"""Of a pod: what the capacity plan has for instances."""


@pytest.fixture(scope="module")
def stories(
    kube: Kube, operator: OperatorRelease, settings: Settings, new_space: NewSpace
) -> Iterator[dict[str, Tuned]]:
    """Both services under load, and an operator that looks at them every 5 s by a Prometheus that does, too."""
    monitoring.start(settings)
    try:
        operator.install("--set", "fleet.signalsInterval=5s")
        with ExitStack() as stack, ThreadPoolExecutor() as threads:
            spaces = {name: new_space(name) for name in FACTORS}

            def begin(name: str) -> Tuned:
                pace = Pace(0.06, 0.0, 1, FACTORS[name])
                one = tuned(kube, spaces[name], name, pace, tokens=1, replicas=REPLICAS, memory_limit=MEMORY, **SPEC)
                return stack.enter_context(one)

            begun = dict(zip(FACTORS, threads.map(begin, FACTORS), strict=True))
            for one in begun.values():
                one.load.rate(RATE)
            yield begun
    finally:
        monitoring.stop(settings)
        operator.install()


def instances(one: Tuned) -> dict[str, int]:
    """Engine instances by pod, as its own Triton has them: each has the slots of one sequence."""
    found = {}
    for pod in one.service.pods():
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{one.service.namespace}/pods/{name}:8002/proxy/metrics"
        page = one.service.kube("get", "--raw", path)
        slots = [float(value) for value in re.findall(r"^llm_gate_slots\{[^}]*\} (\S+)$", page, re.MULTILINE)]
        found[name] = round(max(slots) / (1 + SLOT_LOOKAHEAD))
    return found


def told(one: Tuned) -> str:
    """What Events said of the tuner."""
    events = one.service.kube.list("events", one.service.namespace)
    return " ".join(event["message"] for event in events if event["reason"] == "Tuned")


def tried(one: Tuned) -> Manifest:
    """What the status said first of a replica that tries something; empty where none has yet."""
    canaries = [(status.get("tuning") or {}).get("canary") for status in one.watch.statuses]
    return next((found for found in canaries if found), {})


def counts(one: Tuned) -> list[int]:
    """The knob, each stay once, oldest first."""
    found: list[int] = []
    for status in one.watch.statuses:
        count = (status.get("knobs") or {}).get("engineInstances")
        if count is not None and found[-1:] != [count]:
            found.append(count)
    return found


def test_a_change_that_proves_bad_on_one_replica_is_undone_and_comes_to_no_other(stories: dict[str, Tuned]) -> None:
    bad = stories["bad"]
    canary = eventually(lambda: tried(bad), "one replica tries another setting", 150)
    assert canary["knobs"]["engineInstances"] == 2
    pod = canary["replica"]
    eventually(lambda: instances(bad)[pod] == 2, "it has a second instance", 20)
    assert sorted(instances(bad).values()) == [1] * (REPLICAS - 1) + [2]
    eventually(lambda: not bad.canary(), "it is undone", 120)
    eventually(lambda: set(instances(bad).values()) == {1}, "every replica has the last good setting", 20)
    assert f"replica {pod} tries it first" in bad.decisions()
    assert "the change on one replica is undone" in bad.decisions().lower()
    eventually(lambda: "undone" in told(bad), "an Event says so", 20)
    stays(bad.canary, 12)
    assert counts(bad) == [1], "no other replica was to have it"
    assert bad.load.seen().failed == []


def test_a_change_that_proves_good_on_one_replica_is_made_on_all(stories: dict[str, Tuned]) -> None:
    good = stories["good"]
    canary = eventually(lambda: tried(good), "one replica tries another setting", 150)
    assert canary["knobs"]["engineInstances"] == 2
    eventually(lambda: set(instances(good).values()) == {2}, "every replica has two instances", 120)
    eventually(lambda: counts(good) == [1, 2], "the status says so", 20)
    assert f"replica {canary['replica']} tries it first" in good.decisions()
    assert "proven on one replica" in good.decisions()
    eventually(lambda: "proven on one replica" in told(good), "an Event says so", 20)
    (revision,) = {pod["metadata"]["labels"]["triton-llm.dev/revision"] for pod in good.service.pods()}
    files = good.service.kube.get("configmap", good.service.namespace, f"good-{revision}")["data"]
    assert any(re.search(r"count: 2\b", text) for text in files.values()), "new pods start with two"
    stays(lambda: counts(good), 15)
    assert good.load.seen().failed == []
