"""A whole run, small: what the controller does is what happens, and what happens is judged."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from llmservice.api.knobs import Knobs
from llmservice.tuning.measured import Signals, Validity
from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.kinds import DYNAMIC, LLAMA_8B_A100
from llmservice.tuning.simulator.load import load_of, poisson
from llmservice.tuning.simulator.outcome import Judge
from llmservice.tuning.simulator.plant import PlantTimes
from llmservice.tuning.simulator.run import Fixed, simulate

pytestmark = pytest.mark.unit

FAST = (Objective(Metric.LATENCY, 0.99, 0.110),)
RANDOM = np.random.default_rng(1)
LOAD = load_of(poisson(30.0, 120.0, RANDOM), 120.0, RANDOM)


@dataclass
class Script:
    """Knobs by the number of the look; keeps what it was told."""

    knobs: dict[int, Knobs]
    period: float = 30.0
    told: list[Signals] = field(default_factory=list)

    def look(self, signals: Signals, now: float) -> Knobs:
        self.told.append(signals)
        return self.knobs.get(len(self.told), signals.knobs)


def test_signals_are_what_was_sent() -> None:
    script = Script({})
    run = simulate(DYNAMIC, LOAD, script, FAST, Knobs(), jit=False)
    assert len(script.told) == 4
    for number, signals in enumerate(script.told):
        arrived = len(LOAD.part(30.0 * number, 30.0 * number + 30).times)
        assert signals.arrivals.validity is Validity.FRESH
        assert signals.arrivals.value == pytest.approx(arrived / 30)
        assert sum(signals.arrival_counts) == pytest.approx(arrived)
        assert sum(one.count * one.batch_size for one in signals.steps) == pytest.approx(arrived, abs=10)
    assert run.judge.attainment() == 1.0
    assert run.mean_replicas == pytest.approx(1.0)


def test_step_times_are_those_of_the_engine() -> None:
    script = Script({})
    simulate(DYNAMIC, LOAD, script, FAST, Knobs(), jit=False)
    for step in script.told[-1].steps:
        if step.count > 20:
            assert step.seconds / step.count == pytest.approx(DYNAMIC.batch_seconds(step.batch_size), rel=0.02)


def test_replicas_asked_for_are_told_as_starting_then_ready() -> None:
    script = Script({1: Knobs(replicas=2)})
    simulate(DYNAMIC, LOAD, script, FAST, Knobs(), times=PlantTimes(cold_start=50, cold_start_spread=0), jit=False)
    assert [(one.replicas.ready, len(one.replicas.starting)) for one in script.told] == [(1, 0), (1, 1), (2, 0), (2, 0)]
    assert script.told[2].replicas.cold_starts == pytest.approx((50.0,))


def test_a_replica_that_became_ready_within_a_window_adds_nothing_to_the_rate() -> None:
    """What it got in half of a window is not what it would have got in all of it."""
    script = Script({1: Knobs(replicas=3)})
    simulate(DYNAMIC, LOAD, script, FAST, Knobs(), times=PlantTimes(cold_start=14, cold_start_spread=0), jit=False)
    assert script.told[1].replicas.ready == 3
    arrived = len(LOAD.part(30.0, 60.0).times)
    assert script.told[1].arrivals.value == pytest.approx(arrived / 30)
    assert script.told[1].completions.value == pytest.approx(arrived / 30, abs=0.5)


def test_token_engines_tell_tokens_and_cache() -> None:
    random = np.random.default_rng(2)
    load = load_of(poisson(3.0, 90.0, random), 90.0, random)
    script = Script({})
    objectives = (Objective(Metric.TIME_TO_FIRST_TOKEN, 0.99, 2.0), Objective(Metric.PER_OUTPUT_TOKEN, 0.99, 0.06))
    run = simulate(LLAMA_8B_A100, load, script, objectives, Knobs(slots=194), jit=False)
    last = script.told[-1]
    assert last.input_tokens.known == pytest.approx(1155, rel=0.3)
    assert last.output_tokens.known == pytest.approx(211, rel=0.3)
    assert 0 < last.kv_usage.known_or(0) < 1
    assert 0.01 < last.per_output_token.p50.known_or(0) < 0.05
    assert run.judge.attainment() > 0.95


def test_a_fixed_controller_changes_nothing() -> None:
    run = simulate(DYNAMIC, LOAD, Fixed(Knobs()), FAST, Knobs(), jit=False)
    assert run.tally.replica_changes == run.tally.delay_reloads == run.tally.instance_changes == 0


def test_a_minute_is_violated_when_more_are_slow_than_the_quantile_allows() -> None:
    judge = Judge(FAST, 180.0)
    rows = np.zeros((300, 6))
    rows[:, 0] = np.repeat([10.0, 70.0, 130.0], 100)
    rows[:, 3] = rows[:, 0] + 0.05
    rows[100, 3] += 1.0  # one of a hundred may be
    rows[200:202, 3] += 1.0
    judge.add(rows)
    assert judge.violated() == pytest.approx(1 / 3)
    assert judge.attainment() == pytest.approx(1 - 3 / 300)
    assert judge.attainment(60.0) == pytest.approx(1 - 3 / 200)
    assert judge.quantile(0, 0.5) == pytest.approx(0.05, rel=0.03)
