"""When services are looked at, and when their loops are woken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from llmservice.api.knobs import Knobs
from llmservice.signals import watch as watching
from llmservice.signals.adapters import NATIVE
from llmservice.signals.source import Histories, Target, history_of
from llmservice.signals.watch import SCRAPE_INTERVAL, Asked, Key, Looked, SignalsWatch
from llmservice.tuning.measured import Replicas, Signals, Validity
from tests.unit.signals.pods import GATE, Pod

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHAT = ("default", "chat")


class Pods:
    """A source of which a test sets the pods' counters; None: no pod answers."""

    name = "Pods"

    def __init__(self) -> None:
        self.pod: Pod | None = Pod()
        self.asked: list[int] = []
        self.fault = ""

    async def collect(self, targets: Sequence[Target], histories: Histories, now: float) -> str:
        self.asked.append(len(targets))
        if self.pod is not None:
            for target in targets:
                history_of(histories, target.pod).add(now, self.pod.values.items())
        return self.fault


class Turns:
    """A clock of which each wait is one turn; after the last the watch is told to stop."""

    def __init__(self, turns: int, stop: asyncio.Event, at_turn: Callable[[int], None] = lambda _: None) -> None:
        self.left, self.stop, self.at_turn, self.elapsed = turns, stop, at_turn, 0.0
        self.turn = SCRAPE_INTERVAL

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        self.elapsed += self.turn
        self.left -= 1
        self.at_turn(self.left)
        if self.left <= 0:
            self.stop.set()


def asked(*pods: str) -> Asked:
    targets = tuple(Target(("default", pod), "", NATIVE.names()) for pod in pods)
    return Asked(NATIVE, targets, dict.fromkeys(pods, 0.0), Knobs(slots=18), Replicas(ready=len(pods)))


async def test_a_service_is_woken_only_when_its_figures_changed() -> None:
    stop, pods = asyncio.Event(), Pods()
    woken: list[Key] = []

    def at_turn(left: int) -> None:
        if left == 3 and pods.pod is not None:
            pods.pod.put("llm_gate_held_requests", GATE, 7)

    watch = SignalsWatch(pods, Turns(9, stop, at_turn), woken.append)
    watch.watch(CHAT, asked("p0"))
    await watch.run(stop)
    assert len(pods.asked) == 9
    # The first look, the first rate, the new queue: three changes in five windows.
    assert len(woken) == 3
    latest = watch.latest(CHAT)
    assert latest is not None
    assert latest.figures.queue_depth == 7


async def test_windows_follow_each_other_and_are_told_with_what_came_in_them() -> None:
    stop, pods = asyncio.Event(), Pods()
    told: list[tuple[float, float | None]] = []

    def at_turn(_: int) -> None:
        if pods.pod is not None:
            pods.pod.complete(15)

    def decide(_key: Key, looked: Looked, _now: float) -> bool:
        told.append((looked.signals.window_seconds, looked.signals.completions.known))
        return False

    watch = SignalsWatch(pods, Turns(5, stop, at_turn), lambda _: None, decide)
    watch.watch(CHAT, asked("p0"))
    await watch.run(stop)
    assert told == [(30, 1), (30, 1)]


async def test_a_fleet_may_look_more_often() -> None:
    stop, pods = asyncio.Event(), Pods()
    told: list[float] = []

    def decide(_key: Key, looked: Looked, _now: float) -> bool:
        told.append(looked.signals.window_seconds)
        return False

    clock = Turns(7, stop)
    clock.turn = 5.0
    watch = SignalsWatch(pods, clock, lambda _: None, decide, interval=5.0)
    watch.watch(CHAT, asked("p0"))
    await watch.run(stop)
    assert told == [10, 10, 10]


async def test_a_decision_that_people_see_wakes_the_service() -> None:
    stop, pods = asyncio.Event(), Pods()
    woken: list[Key] = []
    watch = SignalsWatch(pods, Turns(7, stop), woken.append, lambda *_: True)
    watch.watch(CHAT, asked("p0"))
    await watch.run(stop)
    assert len(woken) == 4


async def test_a_source_is_asked_once_for_all_services() -> None:
    stop, pods = asyncio.Event(), Pods()
    watch = SignalsWatch(pods, Turns(3, stop), lambda _: None)
    watch.watch(CHAT, asked("p0", "p1"))
    watch.watch(("default", "code"), asked("c0"))
    await watch.run(stop)
    assert pods.asked == [3, 3, 3]


async def test_a_source_that_fails_is_told_with_the_window() -> None:
    stop, pods = asyncio.Event(), Pods()
    pods.pod, pods.fault = None, "Prometheus does not answer"
    watch = SignalsWatch(pods, Turns(3, stop), lambda _: None)
    watch.watch(CHAT, asked("p0"))
    await watch.run(stop)
    latest = watch.latest(CHAT)
    assert latest is not None
    assert latest.fault == latest.signals.fault == "Prometheus does not answer"
    assert latest.figures.queue_depth is None


async def test_a_window_that_fails_is_of_one_service_alone(caplog: pytest.LogCaptureFixture) -> None:
    """One task looks at all services, and the operator ends with it."""
    stop, pods = asyncio.Event(), Pods()
    decided: list[Key] = []

    def decide(key: Key, _looked: Looked, _now: float) -> bool:
        if key == CHAT:
            raise ValueError("cannot convert float NaN to integer")
        decided.append(key)
        return False

    watch = SignalsWatch(pods, Turns(7, stop), lambda _: None, decide)
    watch.watch(CHAT, asked("p0"))
    watch.watch(("default", "code"), asked("c0"))
    await watch.run(stop)
    assert decided == [("default", "code")] * 3
    failed = [record for record in caplog.records if "window failed" in record.message]
    assert [vars(record)["service"] for record in failed] == ["default/chat"] * 3


async def test_pages_nobody_can_read_make_a_window_without_figures_that_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, pods = asyncio.Event(), Pods()
    told: list[Looked] = []
    woken: list[Key] = []

    def measured(*_: object) -> Signals:
        raise ValueError("cannot convert float NaN to integer")

    def decide(_key: Key, looked: Looked, _now: float) -> bool:
        told.append(looked)
        return False

    monkeypatch.setattr(watching, "measure", measured)
    watch = SignalsWatch(pods, Turns(5, stop), woken.append, decide)
    watch.watch(CHAT, asked("p0"))
    await watch.run(stop)
    assert [looked.signals.window_seconds for looked in told] == [30, 30]
    assert told[0].fault == told[0].signals.fault
    assert "ValueError: cannot convert float NaN to integer" in told[0].fault
    assert told[0].signals.arrivals.validity is Validity.MISSING
    assert told[0].figures.queue_depth is None
    assert woken == [CHAT], "what does not change is told once"
    assert "window failed" in caplog.text


async def test_a_service_without_ready_pods_is_not_read_and_has_no_figures() -> None:
    stop, pods = asyncio.Event(), Pods()
    watch = SignalsWatch(pods, Turns(2, stop), lambda _: None)
    watch.watch(CHAT, asked("p0"))
    watch.watch(CHAT, asked())
    await watch.run(stop)
    assert pods.asked == []
    assert watch.latest(CHAT) is None
