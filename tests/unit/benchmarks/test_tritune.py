"""Baselines do what their documentation says, and what is counted is counted right."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.tritune.baselines import HorizontalAutoscaler, KnativeAutoscaler, SaturationAutoscaler, pending
from benchmarks.tritune.flapping import KNOTS, SPACING, STEEPEST, _random
from benchmarks.tritune.oracles import Capacity, LeadTimeOracle, capacity, clairvoyant_hours, needs
from benchmarks.tritune.played import reversals
from benchmarks.tritune.simpy_batcher import simulate
from benchmarks.tritune.statistics import interval
from llmservice.api.knobs import Knobs
from llmservice.tuning.measured import Measured, Replicas, Signals
from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.kinds import BatchKind
from llmservice.tuning.simulator.load import Load

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmservice.tuning.simulator.plant.available", lambda: False)


def seen(replicas: int, **measured: float) -> Signals:
    figures = {name: Measured.of(value) for name, value in measured.items()}
    return Signals(15.0, Knobs(replicas=replicas), Replicas(ready=replicas), **figures)  # type: ignore[arg-type]


def test_hpa_stays_within_its_tolerance_and_comes_down_after_five_minutes() -> None:
    scaler = HorizontalAutoscaler(pending(10.0), max_replicas=8)
    assert scaler.look(seen(2, queue_depth=21.9), 0.0).replicas == 2
    assert scaler.look(seen(2, queue_depth=50.0), 15.0).replicas == 5
    assert scaler.look(seen(5, queue_depth=5.0), 30.0).replicas == 5
    assert scaler.look(seen(5, queue_depth=5.0), 300.0).replicas == 5
    assert scaler.look(seen(5, queue_depth=5.0), 331.0).replicas == 1


def test_hpa_holds_where_the_metric_is_missing() -> None:
    assert HorizontalAutoscaler(pending(10.0), max_replicas=8).look(seen(3), 0.0).replicas == 3


def test_knative_panics_at_twice_what_is_ready_and_then_never_goes_down() -> None:
    scaler = KnativeAutoscaler(target=10.0, max_replicas=20)
    assert scaler.look(seen(1, queue_depth=0.0, running=7.0), 0.0).replicas == 1
    assert scaler.look(seen(1, queue_depth=30.0, running=10.0), 15.0).replicas == 6
    assert scaler.look(seen(6, queue_depth=0.0, running=1.0), 30.0).replicas == 6


def test_saturation_comes_down_only_when_the_others_have_room() -> None:
    scaler = SaturationAutoscaler(max_replicas=8)
    assert scaler.look(seen(2, queue_depth=0.0, kv_usage=0.40), 1000.0).replicas == 2
    assert scaler.look(seen(2, queue_depth=0.0, kv_usage=0.30), 2000.0).replicas == 1
    assert scaler.look(seen(1, queue_depth=0.0, kv_usage=0.75), 2100.0).replicas == 1
    assert scaler.look(seen(1, queue_depth=0.0, kv_usage=0.75), 2300.0).replicas == 2


def test_reversals() -> None:
    assert reversals([(0, 2), (100, 3), (200, 2)], 720) == 1
    assert reversals([(0, 2), (100, 3), (900, 2)], 720) == 0
    assert reversals([(0, 2), (100, 3), (200, 4), (300, 3)], 720) == 1
    assert reversals([(0, 2), (100, 3), (150, 3), (200, 4)], 720) == 0
    assert reversals([(0, 8), (100, 6), (400, 5), (700, 8)], 720) == 1, "by whatever way"
    assert reversals([(0, 8), (100, 6), (400, 5), (900, 8)], 720) == 0, "left 800 s before"
    assert reversals([(0, 8), (100, 6), (900, 8), (1000, 6), (1100, 8)], 720) == 2
    assert reversals([], 720) == 0


def test_needs_are_of_the_requests_that_came() -> None:
    times = np.concatenate((np.linspace(0, 59, 60), np.linspace(60, 119, 600)))
    load = Load(times, times, times, 120.0)
    table = Capacity(each=2.5, most=6)
    assert needs(load, table, 1.0).tolist() == [1, 4]
    assert needs(load, table, 2.0).tolist() == [1, 6]
    assert clairvoyant_hours(needs(load, table, 1.0)) == pytest.approx(5 / 60)


def test_a_capacity_is_what_the_objectives_allow() -> None:
    kind = BatchKind(overhead=4.0, per_request=0.4, jitter=0.0)
    found = capacity(kind, (Objective(Metric.LATENCY, 0.99, 44.0),), Knobs(), seconds=600.0)
    assert 0.5 * kind.capacity < found < 1.1 * kind.capacity
    with pytest.raises(ValueError, match="already miss"):
        capacity(kind, (Objective(Metric.LATENCY, 0.99, 4.0),), Knobs(), seconds=600.0)


def test_a_trial_too_short_to_judge_is_refused() -> None:
    kind = BatchKind(overhead=0.1, per_request=0.01, jitter=0.0)
    with pytest.raises(ValueError, match="too short"):
        capacity(kind, (Objective(Metric.LATENCY, 0.99, 1.1),), Knobs(), seconds=60.0)


def test_the_lead_time_oracle_asks_before_it_is_needed() -> None:
    oracle = LeadTimeOracle(np.array([1, 1, 1, 1, 1, 1, 1, 4, 1, 1]), lead=180.0)
    assert oracle.look(seen(1), 0.0).replicas == 1
    assert oracle.look(seen(1), 180.0).replicas == 4
    assert oracle.look(seen(4), 480.0).replicas == 1


def test_attacks_are_no_steeper_than_allowed() -> None:
    for seed in range(5):
        rates = _random(np.random.default_rng(seed))
        assert len(rates) == KNOTS
        assert np.abs(np.diff(np.log(rates))).max() <= np.log(STEEPEST) * SPACING / 60 + 1e-9


def test_an_interval_holds_its_mean() -> None:
    found = interval([1.0, 2.0, 3.0, 4.0])
    assert found.low < found.mean == 2.5 < found.high


def test_the_second_batcher_alone() -> None:
    latencies, sizes = simulate(5.0, 20.0, overhead=0.010, per_request=0.001, largest=8, delay=0.0, instances=1, seed=1)
    assert min(latencies) == pytest.approx(0.011)
    assert set(sizes) <= {1, 2}
