"""The tuner on a real cluster with a real Prometheus, in front of replicas whose engine takes a declared time.

Real are the operator, its chart, the Prometheus, the pods, Triton, the gate, the slots and the counters. Only the
engine computes nothing: a step of b sequences takes 60 + 5 b ms, since on a few cores more replicas of an engine that
computes would add nothing. The tests are one story and follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster import monitoring
from cluster.settings import Settings
from tests.e2e.main_job.conftest import NewSpace
from tests.e2e.main_job.kube import Kube
from tests.e2e.main_job.operator_release import OperatorRelease
from tests.e2e.main_job.tuned import CALM, LEAST, OBJECTIVE, Tuned, tuned
from tests.e2e.main_job.waiting import eventually, stays
from tests.serving.paced_pod import latencies

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def story(kube: Kube, operator: OperatorRelease, settings: Settings, new_space: NewSpace) -> Iterator[Tuned]:
    """A service with one replica, and an operator that looks at it every 5 s by a Prometheus that does, too."""
    monitoring.start(settings)
    try:
        operator.install("--set", "fleet.signalsInterval=5s")
        with tuned(kube, new_space("tuner"), "paced") as one:
            yield one
    finally:
        monitoring.stop(settings)
        operator.install()


def test_three_times_the_load_is_answered_with_replicas_and_the_objective_holds_again(story: Tuned) -> None:
    calm = story.load.rate(CALM)
    eventually(lambda: len(latencies(story.load.seen(), calm)) >= LEAST, "enough calm requests", 90)
    eventually(lambda: story.trusted() == "True", "the signals are trusted", 60)
    step = story.load.rate(3 * CALM)
    assert story.latency(calm, step) <= OBJECTIVE
    assert story.replicas() == [1]
    eventually(lambda: story.queue() > 4, "the queue rises", 90)
    eventually(lambda: story.replicas()[-1] > 1, "the tuner asks for replicas", 90)
    eventually(story.all_serve, "all of them serve", 120)
    eventually(lambda: story.holds(step), "the objective holds again", 150)
    after = story.load.seen().now
    eventually(lambda: len(latencies(story.load.seen(), after)) >= LEAST, "enough requests after the step", 60)
    assert story.latency(after) <= OBJECTIVE
    assert story.replicas() == sorted(story.replicas()), "more replicas came, and some of them went"
    assert story.load.seen().failed == []


def test_without_its_prometheus_knobs_stay_and_status_says_so(story: Tuned, settings: Settings) -> None:
    monitoring.stop(settings)
    eventually(lambda: story.trusted() == "False", "the signals are not trusted", 60)
    said = story.signals_trusted()
    assert said["reason"] == "SignalsMissing"
    assert "does not answer" in said["message"]
    stays(lambda: story.status()["knobs"], 15)
    assert story.tuning()["outcome"] == "Distrust"
    monitoring.start(settings)
    eventually(lambda: story.trusted() == "True", "the signals are trusted again", 60)
    assert story.replicas() == sorted(story.replicas()), "some went when figures came back"
    assert story.load.seen().failed == []


def test_when_nothing_comes_any_more_the_fewest_replicas_stay(story: Tuned) -> None:
    story.load.rate(0)
    eventually(lambda: story.replicas()[-1] == 1, "one replica is asked for", 120)
    assert any("no request came" in one["reason"].lower() for one in story.tuning()["decisions"])
    eventually(lambda: len(story.service.pods()) == 1, "one replica is left", 60)
    assert story.trusted() == "True"
    seen = story.load.seen()
    assert (seen.open, seen.failed) == ([], [])
