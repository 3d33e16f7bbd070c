"""The simulated batcher and the closed forms check each other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from llmservice.tuning import closed_form
from llmservice.tuning.batch_model import BatchModel, disagreement, simulate
from llmservice.tuning.batcher import Setting
from llmservice.tuning.optimise import choose, options
from llmservice.tuning.performance import BatchPerformance, Candidate
from llmservice.tuning.service_time import ServiceTime
from llmservice.tuning.settings import Bounds, Metric, Objective

pytestmark = pytest.mark.unit

TIMES = ServiceTime(((0.010, 0.001),))
GAINS = (1.0, 1.25, 1.35, 1.40)
GREEDY, PATIENT = Setting(1, 0.0), Setting(1, 0.020)
PAIR = Setting(2, 0.020)
SETTINGS = (GREEDY, PATIENT, Setting(2, 0.0), PAIR)


@pytest.fixture(scope="module")
def model() -> BatchModel:
    return simulate(TIMES, 64, GAINS, SETTINGS)


POINTS = [(a, c, load) for a, c in ((0.010, 0.001), (0.005, 0.001), (0.020, 0.001)) for load in (2, 4, 5, 6, 8)]


@pytest.mark.parametrize(("overhead", "per_item", "place"), POINTS)
def test_inoue_bound_holds_at_fifteen_points(overhead: float, per_item: float, place: int) -> None:
    """φ / mean is 1 to 1.1 (Inoue 2021), with 4 % for the simulation's own noise; the largest batch is beyond reach."""
    model = simulate(ServiceTime(((overhead, per_item),)), 256, (1.0,), (GREEDY,))
    row = model.row(GREEDY)
    rate, mean = float(row.rates[place]), float(row.mean[place])
    assert 0.2 < rate * per_item < 0.85
    assert 0.96 <= closed_form.mean_latency(overhead, per_item, rate) / mean <= 1.12


def test_closed_forms_by_hand() -> None:
    assert closed_form.batch_seconds(0.010, 0.001, 500.0) == pytest.approx(0.020)
    assert closed_form.largest_rate(0.010, 0.001, 0.100) == pytest.approx(730.0)
    assert closed_form.batch_seconds(0.010, 0.001, 1000.0) == float("inf")


@pytest.mark.parametrize(
    ("setting", "rate", "milliseconds"),
    [
        (GREEDY, 60, 23), (GREEDY, 150, 27), (GREEDY, 300, 35), (GREEDY, 500, 52), (GREEDY, 700, 90),
        (PATIENT, 60, 35), (PATIENT, 150, 38), (PATIENT, 300, 42),
        (Setting(2, 0.0), 300, 48), (Setting(2, 0.0), 700, 95),
        (PAIR, 60, 35), (PAIR, 300, 42), (PAIR, 500, 53), (PAIR, 700, 76),
    ],
)  # fmt: skip
def test_tails_agree_with_long_simulations(
    model: BatchModel, setting: Setting, rate: float, milliseconds: float
) -> None:
    assert 1000 * model.quantile(setting, rate, 0.99) == pytest.approx(milliseconds, rel=0.10)


def test_both_agree_on_what_they_can_both_tell(model: BatchModel) -> None:
    assert disagreement(model, TIMES, 64) < 0.10


def test_a_model_that_is_wrong_is_noticed(model: BatchModel) -> None:
    assert disagreement(model, TIMES.scaled(1.5), 64) > 0.15


def test_rate_and_tail_are_inverse_to_each_other(model: BatchModel) -> None:
    for setting in SETTINGS:
        rate = model.largest_rate(setting, 0.99, 0.080)
        assert model.quantile(setting, rate, 0.99) == pytest.approx(0.080, rel=0.04)


def test_tails_grow_with_the_rate(model: BatchModel) -> None:
    tails = [model.quantile(GREEDY, rate, 0.99) for rate in np.linspace(20, 900, 60)]
    assert all(later >= earlier * 0.98 for earlier, later in pairwise(tails))


def test_bursts_lower_what_a_replica_takes(model: BatchModel) -> None:
    bursty = BatchModel(model.settings, model.rows, ((0.8, 0.625), (0.2, 2.5)))
    assert bursty.largest_rate(GREEDY, 0.99, 0.1) < 0.6 * model.largest_rate(GREEDY, 0.99, 0.1)


def test_the_coupled_optimum_is_found(model: BatchModel) -> None:
    """700 requests/s within 85 ms: one replica does with two instances and 20 ms of delay, and with neither alone."""
    performance = BatchPerformance(model, TIMES, GAINS, 64, 66)
    objective = (Objective(Metric.LATENCY, 0.99, 0.085),)
    found = options(performance, objective, Bounds(max_instances=2, max_replicas=8), 700.0, 0.95)
    best = choose(found, Candidate(1, 0.0, 66))
    assert (best.candidate.instances, best.candidate.delay, best.replicas) == (2, 0.020, 1)
    others = [one for one in found if one.candidate != best.candidate]
    assert all(one.replicas > 1 for one in others)
