"""The tuner in the loop: its knobs reach the pods' files, its reasons the status, its memory a ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from llmservice.api.knobs import Knobs
from llmservice.api.operations import TuningMode
from llmservice.api.status import SignalsStatus
from llmservice.kube import resources
from llmservice.reconcile.tuner import KEPT_EVERY, Tuner
from llmservice.signals.watch import Looked
from llmservice.tuning.decide import distrusted
from llmservice.tuning.decision import Action, Decision, Knob, Outcome
from llmservice.tuning.guard import Change, Guard
from llmservice.tuning.measured import Measured, Replicas, Signals, Turn
from llmservice.tuning.settings import Settings
from llmservice.tuning.state import PastDecision, State
from tests.unit.reconcile.small_cluster import KEY, SPEC, SmallCluster
from tests.unit.tuning.windows import frame, knobs, window

pytestmark = pytest.mark.unit

AUTO: dict[str, Any] = {**SPEC, "tuning": {"mode": "Auto"}, "batching": {"mode": "Dynamic", "maxQueueDelay": "5ms"}}
Script = Callable[[Knobs], Knobs]


def scripted(script: Script) -> Callable[[Settings, Signals, State, float], tuple[Decision, State]]:
    """A tuner that always wants what `script` makes of the knobs."""

    def tune(settings: Settings, signals: Signals, state: State, now: float) -> tuple[Decision, State]:
        wanted = script(signals.knobs)
        if wanted == signals.knobs:
            return Decision(Outcome.HOLD, wanted, wanted, "nothing to gain"), state
        action = Action(Knob.DELAY, 0.005, wanted.max_queue_delay.total_seconds(), "it batches better")
        past = PastDecision(at=now, outcome="Act", reason="it batches better", changes=("maxQueueDelay 5ms -> 10ms",))
        memory = state.model_copy(update={"decisions": (*state.decisions, past)})
        return Decision(Outcome.ACT, wanted, wanted, "it batches better", (action,)), memory

    return tune


class Tuned:
    """A cluster with a tuner, and windows told by hand."""

    def __init__(self, script: Script, spec: dict[str, Any] = AUTO) -> None:
        self.cluster, self.script = SmallCluster(), script
        self.start()
        self.cluster.user_applies(spec)

    def start(self) -> None:
        """A new operator process."""
        self.cluster.restart()
        self.tuner = Tuner(self.cluster.fleet, scripted(self.script))
        self.cluster.loop.tuner = self.tuner

    def window(self, **measured: Any) -> bool:
        """One window with the knobs in force; whether people see a change."""
        stored = self.cluster.status()["knobs"]
        knobs = Knobs.model_validate({name: value for name, value in stored.items() if name != "seed"})
        signals = Signals(
            30, knobs, Replicas(ready=1), **{"arrivals": Measured.of(1), "queue_depth": Measured.of(0), **measured}
        )
        fault = str(measured.get("fault", ""))
        self.cluster.clock.elapsed += 30
        now = self.cluster.clock.now().timestamp()
        return self.tuner.decide(KEY, Looked(signals, SignalsStatus(), fault), now)

    def gate_config(self) -> str:
        maps = [
            self.cluster.kube.peek(resources.CONFIG_MAP, KEY[0], name)
            for name in self.cluster.kube.names(resources.CONFIG_MAP, KEY[0])
            if not name.endswith("-tuning")
        ]
        return str(maps[0]["data"])

    def memory(self) -> dict[str, Any] | None:
        if "chat-tuning" not in self.cluster.kube.names(resources.CONFIG_MAP, KEY[0]):
            return None
        stored = self.cluster.kube.peek(resources.CONFIG_MAP, KEY[0], "chat-tuning")
        found: dict[str, Any] = json.loads(stored["data"]["state.json"])
        return found


def ten_milliseconds(knobs: Knobs) -> Knobs:
    return knobs.model_copy(update={"max_queue_delay": timedelta(milliseconds=10)})


async def test_a_knob_that_moved_reaches_files_pods_status_and_events() -> None:
    tuned = Tuned(ten_milliseconds)
    await tuned.cluster.converge()
    assert "max_queue_delay_microseconds: 5000" in tuned.gate_config()
    assert tuned.window()
    await tuned.cluster.converge()
    assert "max_queue_delay_microseconds: 10000" in tuned.gate_config()
    assert all("10000" in brought for brought in tuned.cluster.live.brought.values())
    status = tuned.cluster.status()
    assert status["knobs"]["maxQueueDelay"] == "10ms"
    assert status["tuning"]["decisions"][0]["changes"] == ["maxQueueDelay 5ms -> 10ms"]
    assert ("Normal", "Tuned") in tuned.cluster.events()
    assert [reason for _, reason in tuned.cluster.events()].count("Tuned") == 1


async def test_a_decision_that_stands_is_written_once() -> None:
    tuned = Tuned(lambda knobs: knobs)
    await tuned.cluster.converge()
    assert tuned.window()
    await tuned.cluster.converge()
    assert not tuned.window()
    assert await tuned.cluster.writes_of_a_pass() == []


async def test_a_new_operator_goes_on_with_what_was_learnt_and_moves_nothing() -> None:
    tuned = Tuned(ten_milliseconds)
    await tuned.cluster.converge()
    tuned.window()
    await tuned.cluster.converge()
    kept = tuned.memory()
    tuned.start()
    writes = await tuned.cluster.writes_of_a_pass()
    assert {call.resource for call in writes} == {resources.SECRET}, "which no operator can read"
    assert tuned.memory() == kept
    assert tuned.cluster.status()["knobs"]["maxQueueDelay"] == "10ms"


async def test_what_is_learnt_without_acting_is_kept_now_and_then_and_an_idle_service_writes_nothing() -> None:
    tuned = Tuned(lambda knobs: knobs)
    await tuned.cluster.converge()
    tuned.window(arrivals=Measured.of(0))
    tuned.cluster.clock.elapsed += KEPT_EVERY
    tuned.window(arrivals=Measured.of(0))
    await tuned.cluster.converge()
    assert tuned.memory() is None
    tuned.window(arrivals=Measured.of(3))
    await tuned.cluster.converge()
    assert tuned.memory() is not None


async def test_editing_the_delay_seeds_it_again_whatever_was_decided_before() -> None:
    tuned = Tuned(ten_milliseconds)
    await tuned.cluster.converge()
    tuned.window()
    await tuned.cluster.converge()
    tuned.cluster.user_applies({**AUTO, "batching": {"mode": "Dynamic", "maxQueueDelay": "20ms"}})
    await tuned.cluster.converge()
    assert tuned.cluster.status()["knobs"]["maxQueueDelay"] == "20ms"


async def test_observe_says_what_it_would_do_and_moves_nothing() -> None:
    tuned = Tuned(ten_milliseconds, {**AUTO, "tuning": {"mode": "Observe"}})
    await tuned.cluster.converge()
    tuned.window()
    await tuned.cluster.converge()
    status = tuned.cluster.status()
    assert status["knobs"]["maxQueueDelay"] == "5ms"
    assert status["tuning"]["proposed"]["maxQueueDelay"] == "10ms"
    assert tuned.tuner.desired() == {KEY: 1}


async def test_signals_that_cannot_be_trusted_are_a_condition_with_the_cause() -> None:
    tuned = Tuned(lambda knobs: knobs)
    await tuned.cluster.converge()
    assert tuned.cluster.condition("SignalsTrusted")["status"] == "Unknown"
    tuned.window(contradictions=("engine steps took 90 s within 1 x 30 s",))
    await tuned.cluster.converge()
    trusted = tuned.cluster.condition("SignalsTrusted")
    assert (trusted["status"], trusted["reason"]) == ("False", "SignalsContradict")
    assert "engine steps took 90 s" in trusted["message"]
    tuned.window()
    await tuned.cluster.converge()
    assert tuned.cluster.condition("SignalsTrusted")["status"] == "True"


async def test_a_window_the_tuner_fails_on_is_a_condition_and_the_knobs_stay(caplog: pytest.LogCaptureFixture) -> None:
    """It was in the operator's log alone: a service that nobody tuned any more looked as well as any."""
    fails = False

    def script(knobs: Knobs) -> Knobs:
        if fails:
            raise ZeroDivisionError("float division by zero " + 100 * "and so on ")
        return ten_milliseconds(knobs)

    tuned = Tuned(script)
    await tuned.cluster.converge()
    tuned.window()
    await tuned.cluster.converge()
    fails = True
    tuned.window()
    await tuned.cluster.converge()
    trusted = tuned.cluster.condition("SignalsTrusted")
    assert (trusted["status"], trusted["reason"]) == ("False", "SignalsMissing")
    assert "ZeroDivisionError: float division by zero" in trusted["message"]
    assert len(trusted["message"]) < 300
    status = tuned.cluster.status()
    assert status["tuning"]["outcome"] == status["tuning"]["decisions"][0]["outcome"] == "Distrust"
    assert status["knobs"]["maxQueueDelay"] == "10ms"
    assert "no decision" in caplog.text
    fails = False
    tuned.window()
    await tuned.cluster.converge()
    assert tuned.cluster.condition("SignalsTrusted")["status"] == "True"


async def test_another_cause_of_distrust_is_told_in_its_own_words() -> None:
    tuned = Tuned(lambda knobs: knobs)
    await tuned.cluster.converge()
    for fault in ("Prometheus does not answer (3 times)", "Prometheus does not answer (4 times)", "no pod answers"):
        tuned.window(fault=fault)
        await tuned.cluster.converge()
        told = tuned.cluster.condition("SignalsTrusted")["message"]
        assert ("3 times" in told) == ("times" in fault), "figures alone are no news"
    assert "no pod answers" in told


async def test_a_window_the_tuner_fails_on_moves_nothing_in_observe_however_long_it_lasts() -> None:
    settings = frame(mode=TuningMode.OBSERVE)
    state, now = State(), 1000.0
    for _ in range(60):
        now += 30.0
        overwhelmed = window(100.0, knobs(2), queue_depth=Measured.of(5000.0), waiting=Measured.of(5000.0))
        decision, state = distrusted(settings, overwhelmed, state, now, "a fault")
    assert decision.degraded
    assert (decision.outcome, decision.actions) == (Outcome.OBSERVE, ())
    assert state.generation == settings.generation


async def test_turned_off_it_forgets_and_takes_its_memory_along() -> None:
    tuned = Tuned(ten_milliseconds)
    await tuned.cluster.converge()
    tuned.window()
    await tuned.cluster.converge()
    tuned.cluster.user_applies({**AUTO, "tuning": {"mode": "Off"}})
    await tuned.cluster.converge()
    assert tuned.memory() is None
    assert "tuning" not in tuned.cluster.status()
    assert tuned.cluster.status()["knobs"]["maxQueueDelay"] == "5ms"
    assert tuned.cluster.condition("SignalsTrusted")["message"] == "tuning.mode is Off, so nobody follows the signals"


async def test_services_share_their_reloads_and_one_that_waits_is_remembered_as_waiting() -> None:
    turns: list[Turn] = []

    def tune(settings: Settings, signals: Signals, state: State, now: float) -> tuple[Decision, State]:
        turns.append(signals.turn)
        return Decision(Outcome.HOLD, signals.knobs, signals.knobs, "waits", claims=bool(signals.turn.free_at)), state

    tuned = Tuned(lambda knobs: knobs)
    tuned.tuner.tune = tune
    await tuned.cluster.converge()
    tuned.window()
    assert turns == [Turn()]
    now = tuned.cluster.clock.now().timestamp()
    other = ("default", "other")
    spent = tuple(Change(at=now - 60.0 * place, knob=Knob.DELAY, old=0, new=1) for place in range(6))
    state = State(guard=Guard(changes=spent))
    tuned.tuner._tuned[other] = replace(tuned.tuner._tuned[KEY], state=state)
    tuned.window()
    assert turns[1].free_at == now - 300 + 3600
    assert "6 of 6 changes" in turns[1].reason
    assert set(tuned.tuner._claims) == {KEY}
    tuned.tuner.forget(other)
    tuned.window()
    assert turns[2] == Turn()
    assert tuned.tuner._claims == {}


async def test_a_damaged_memory_is_forgotten_and_nothing_fails() -> None:
    tuned = Tuned(ten_milliseconds)
    await tuned.cluster.converge()
    tuned.window()
    await tuned.cluster.converge()
    stored = tuned.cluster.kube
    stored.change(resources.CONFIG_MAP, KEY[0], "chat-tuning", lambda one: one.update(data={"state.json": "{nonsense"}))
    tuned.start()
    await tuned.cluster.converge()
    tuned.window()
    assert tuned.tuner.desired() == {KEY: 1}
