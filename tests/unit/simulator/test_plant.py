"""Replicas that come and go: who serves, what is paid, what is lost."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from llmservice.api.knobs import Knobs
from llmservice.tuning.simulator.kinds import DYNAMIC, LLAMA_8B_A100
from llmservice.tuning.simulator.load import Load, load_of, poisson
from llmservice.tuning.simulator.plant import Plant, PlantTimes

pytestmark = pytest.mark.unit

TIMES = PlantTimes(cold_start=60, cold_start_spread=0.0)


def load(rate: float = 20.0, seconds: float = 300.0) -> Load:
    random = np.random.default_rng(5)
    return load_of(poisson(rate, seconds, random), seconds, random)


def plant(knobs: Knobs | None = None, **changes: object) -> Plant:
    return Plant(DYNAMIC, knobs or Knobs(), load(), times=TIMES, jit=False, **changes)  # type: ignore[arg-type]


def test_every_request_is_served_once() -> None:
    one = plant(Knobs(replicas=3))
    finished = np.concatenate(one.advance(300.0))
    left = sum(len(replica.waiting) + replica.inside for replica in one.replicas)
    assert len(finished) + left == len(one.load.times)
    assert one.tally.dropped == 0


def test_a_new_replica_serves_after_its_cold_start_and_is_paid_from_the_beginning() -> None:
    one = plant()
    one.advance(10.0)
    one.set_knobs(Knobs(replicas=2))
    one.advance(69.0)
    assert len(one.ready()) == 1
    one.advance(71.0)
    assert len(one.ready()) == 2
    assert one.tally.replica_seconds == pytest.approx(71 + 61)


def test_a_pod_without_a_node_costs_nothing() -> None:
    one = plant()
    one.schedule_delay = 100.0
    one.set_knobs(Knobs(replicas=2))
    one.advance(90.0)
    assert one.tally.replica_seconds == pytest.approx(90)
    one.advance(150.0)
    assert one.tally.replica_seconds == pytest.approx(150 + 50)
    assert len(one.ready()) == 1


def test_a_replica_that_drains_finishes_what_it_has() -> None:
    one = Plant(LLAMA_8B_A100, Knobs(replicas=2, slots=194), load(4.0), times=TIMES, jit=False)
    one.advance(30.0)
    one.set_knobs(Knobs(replicas=1, slots=194))
    one.advance(300.0)
    assert len(one.replicas) == 1
    assert one.tally.dropped == 0
    assert 330 < one.tally.replica_seconds < 345


def test_replicas_that_do_not_serve_yet_go_first() -> None:
    one = plant()
    one.set_knobs(Knobs(replicas=2))
    one.advance(5.0)
    one.set_knobs(Knobs(replicas=1))
    assert [replica.name for replica in one.replicas] == ["replica-1"]


def test_growing_sends_nobody_away() -> None:
    one = plant(Knobs(replicas=3))
    one.set_knobs(Knobs(replicas=4))
    assert len(one.ready()) == 3
    assert len(one.wanted()) == 4


def test_a_delay_comes_with_a_reload_and_an_instance_in_place() -> None:
    one = plant()
    wanted = Knobs(max_queue_delay=timedelta(milliseconds=20), engine_instances=2)
    one.set_knobs(wanted)
    one.advance(9.0)
    assert one.knobs_in_force() == Knobs()
    one.advance(11.0)
    assert one.knobs_in_force().engine_instances == 2
    assert one.changing
    one.advance(31.0)
    assert one.knobs_in_force() == wanted
    assert not one.changing


def test_a_reload_that_fails_leaves_what_was() -> None:
    one = plant()
    one.reload_fails = True
    one.set_knobs(Knobs(max_queue_delay=timedelta(milliseconds=20)))
    one.advance(31.0)
    assert one.knobs_in_force() == one.knobs == Knobs()


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (np.concatenate(plant(Knobs(replicas=2), seed=3).advance(60.0)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
