"""The tuner on a real cluster with a real Prometheus: `python -m benchmarks.tuner_live`, `QUICK=1` for short.

One story on the full embedded cluster, told by `tests.e2e.main_job.tuned`: a calm load, three times as much, a burst;
then the Prometheus is killed, goes blind, loses what it had, one pod's figures vanish; then nothing comes any more.
Replicas have an engine that takes a declared time and computes nothing, so that more of them do more on a few cores.
`QUICK=1` lets the operator look every 5 s instead of 15.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

from benchmarks.figures import Figures, quick
from cluster import lifecycle, monitoring, testing
from cluster.lifecycle import Tier
from cluster.settings import Settings, from_environment
from tests.e2e.main_job.kube import Kube
from tests.e2e.main_job.operator_release import OperatorRelease
from tests.e2e.main_job.tuned import CALM, LEAST, OBJECTIVE, Tuned, tuned
from tests.e2e.main_job.waiting import eventually, stays
from tests.serving.paced_pod import latencies

NAMESPACE: Final = "bench-tuner"
STEP: Final = 3
BURST: Final = 80
"""Requests at once: eight seconds of what one replica does at most."""
LONG: Final = 300.0


def windows() -> float:
    """Seconds of a window: two looks of the operator."""
    return 10.0 if quick() else 30.0


def measure(figures: Figures) -> None:
    """The whole story. Ends with an explanation where the cluster has services already: they would disturb it."""
    with _operator() as (kube, settings), tuned(kube, NAMESPACE, "paced") as story:
        step = before(story, figures)
        after_step(story, figures, step)
        burst(story, figures)
        for name, spoil in faults(story, settings).items():
            fault(story, settings, figures, name, spoil)
        silence(story, figures)
        seen = story.load.seen()
        figures.add("live_requests", len(seen.requests), "requests")
        figures.add("live_failed_requests", len(seen.failed), "requests", 0)
        for when, why in seen.failed[:3]:
            print(f"  failed at {when:.0f} s: {why}")


@contextmanager
def _operator() -> Iterator[tuple[Kube, Settings]]:
    """The operator of this checkout with a Prometheus; everything is taken away that was not there before."""
    settings = from_environment()
    was_up = lifecycle.is_up(settings, Tier.FULL)
    testing.ensure_up(settings, Tier.FULL)
    kube = Kube(settings.bin, settings.kubeconfig)
    release = OperatorRelease(kube, settings)
    crd = kube("get", "crd", "llmservices.triton-llm.dev", "--ignore-not-found", "-o", "name")
    if crd and (found := kube("get", "llmservices", "-A", "-o", "name")):
        raise SystemExit(f"the cluster has services already ({len(found.split())}): delete them, or `make down`")
    release.uninstall_all()
    release.load_images()
    monitoring.empty(settings)
    try:
        release.install("--set", f"fleet.signalsInterval={windows() / 2:.0f}s")
        kube("create", "namespace", NAMESPACE)
        yield kube, settings
    finally:
        kube("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=200s")
        release.uninstall_all()
        monitoring.stop(settings)
        if not was_up:
            lifecycle.down(settings)


def before(story: Tuned, figures: Figures) -> float:
    """A calm load; the moment at which it triples."""
    calm = story.load.rate(CALM)
    least = max(LEAST, round(CALM * 6 * windows()))
    eventually(lambda: len(latencies(story.load.seen(), calm)) >= least, "enough calm requests", LONG)
    eventually(lambda: story.trusted() == "True", "the signals are trusted", LONG)
    step = story.load.rate(STEP * CALM)
    figures.add("live_p99_before", story.latency(calm, step), "s", OBJECTIVE)
    return step


def after_step(story: Tuned, figures: Figures, step: float) -> None:
    """From the step until the objective holds again, and for some windows from then on."""
    since = time.monotonic()
    deepest = 0.0

    def asked() -> bool:
        nonlocal deepest
        deepest = max(deepest, story.queue())
        return story.replicas()[-1] > 1

    eventually(asked, "the tuner asks for replicas", LONG)
    figures.add("live_seconds_to_act", time.monotonic() - since, "s")

    def holds() -> bool:
        nonlocal deepest
        deepest = max(deepest, story.queue())
        return story.all_serve() and story.holds(step)

    eventually(holds, "the objective holds again", LONG)
    held = story.load.seen().now
    figures.add("live_seconds_to_hold", time.monotonic() - since, "s")
    figures.add("live_queue_deepest", deepest, "requests")
    figures.add("live_p99_during", story.latency(step, held), "s")
    least = max(LEAST, round(STEP * CALM * 4 * windows()))
    eventually(lambda: len(latencies(story.load.seen(), held)) >= least, "enough requests after the step", LONG)
    figures.add("live_p99_after", story.latency(held), "s", OBJECTIVE)
    figures.add("live_replicas_after", story.replicas()[-1], "replicas")
    figures.add("live_reversals", reversals(story), "changes", 0)


def burst(story: Tuned, figures: Figures) -> None:
    """Requests at once on top of the load: served by what is there, and no reason to flap."""
    at = story.load.burst(BURST)
    eventually(lambda: story.holds(at + 1), "the objective holds after the burst", LONG)
    figures.add("live_burst_seconds_to_hold", story.load.seen().now - at, "s")
    figures.add("live_burst_reversals", reversals(story), "changes", 0)


def faults(story: Tuned, settings: Settings) -> dict[str, Callable[[], object]]:
    """What goes wrong with the signals, by name."""
    return {
        "killed": lambda: monitoring.stop(settings),
        "stale": lambda: (monitoring.stop(settings), monitoring.start(settings, scraping=False)),
        "empty": lambda: monitoring.empty(settings, scraping=False),
        "vanished": lambda: monitoring.hide(settings, *half_of(story)),
    }


def half_of(story: Tuned) -> list[str]:
    """Half of the pods, the larger half: what is left is no quorum."""
    pods = [one["metadata"]["name"] for one in story.service.pods()]
    return pods[: (len(pods) + 1) // 2]


def fault(story: Tuned, settings: Settings, figures: Figures, name: str, spoil: Callable[[], object]) -> None:
    """Signals fail, are told not to be trusted, move nothing for three windows, and are trusted again."""
    knobs = story.status()["knobs"]
    since = time.monotonic()
    spoil()
    eventually(lambda: story.trusted() == "False", f"{name}: the signals are not trusted", LONG)
    figures.add(f"live_{name}_seconds_to_tell", time.monotonic() - since, "s", 3 * windows())
    print(f"  {name}: {story.signals_trusted()['message']}", flush=True)
    stays(lambda: story.status()["knobs"], 3 * windows())
    wrong = (story.tuning()["outcome"] != "Distrust") + (story.status()["knobs"] != knobs)
    figures.add(f"live_{name}_wrong", wrong, "answers", 0)
    since = time.monotonic()
    monitoring.start(settings)
    eventually(lambda: story.trusted() == "True", f"{name}: the signals are trusted again", LONG)
    figures.add(f"live_{name}_seconds_to_trust_again", time.monotonic() - since, "s")


def silence(story: Tuned, figures: Figures) -> None:
    """Nothing comes any more: the fewest replicas, once, and nothing more."""
    since = time.monotonic()
    story.load.rate(0)
    eventually(lambda: story.replicas()[-1] == 1, "the fewest replicas are asked for", LONG)
    figures.add("live_idle_seconds_to_fewest", time.monotonic() - since, "s")
    eventually(lambda: len(story.service.pods()) == 1, "one replica is left", LONG)
    stays(story.replicas, 3 * windows())


def reversals(story: Tuned) -> int:
    """How often replicas went while the load was on."""
    counts = story.replicas()
    return sum(later < earlier for earlier, later in pairwise(counts))


def main() -> None:
    """Measures and writes the figures."""
    figures = Figures("tuner-live")
    measure(figures)
    print(figures.write())


if __name__ == "__main__":
    main()
