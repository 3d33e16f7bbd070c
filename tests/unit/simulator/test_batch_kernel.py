"""The batcher, by hand: what Triton does with these arrivals is known."""

from __future__ import annotations

import numpy as np
import pytest

from llmservice.tuning.simulator.kinds import BatchKind
from llmservice.tuning.simulator.replica import ARRIVAL, FINISH, START, Pace, Replica, Setting, new_state

pytestmark = pytest.mark.unit

EXACT = BatchKind(overhead=0.010, per_request=0.001, max_batch=4, jitter=0.0)


def served(
    arrivals: list[float], delay: float = 0.0, instances: int = 1, kind: BatchKind = EXACT
) -> list[tuple[float, float]]:
    """(start, finish) of each request in milliseconds, by order of arrival."""
    replica = Replica("one", 0, 0, 0, Setting(delay, instances, 8), new_state(kind, 1), jit=False)
    rows = np.zeros((len(arrivals), 3))
    rows[:, 0] = arrivals
    done = replica.advance(0.0, 10.0, rows, Pace(kind))
    done = done[np.argsort(done[:, ARRIVAL], kind="stable")]
    return [(round(1000 * row[START], 6), round(1000 * row[FINISH], 6)) for row in done]


def test_one_request_waits_for_nobody_without_a_delay() -> None:
    assert served([0.001]) == [(1, 12)]


def test_what_comes_while_a_batch_runs_is_the_next_batch() -> None:
    assert served([0, 0.001, 0.002, 0.010]) == [(0, 11), (11, 24), (11, 24), (11, 24)]


def test_a_batch_is_never_larger_than_the_largest() -> None:
    assert served([0, 0.001, 0.002, 0.003, 0.004, 0.005]) == [(0, 11), *[(11, 25)] * 4, (25, 36)]


def test_the_delay_counts_from_the_oldest_request() -> None:
    assert served([0.0, 0.015], delay=0.020) == [(20, 32), (20, 32)]


def test_a_full_batch_does_not_wait() -> None:
    assert served([0.0, 0.001, 0.002, 0.003], delay=0.020) == [(3, 17)] * 4


def test_a_request_behind_a_payload_waits_its_own_delay() -> None:
    """Released while nobody is free the payload grows; what comes after the delay has begun anew is not yet in it."""
    assert served([0.0, 0.030, 0.045], delay=0.020) == [(20, 31), (50, 62), (50, 62)]


def test_instances_share_the_accelerator() -> None:
    """Two at once run at 1.25 / 2 of their speed until the first is done."""
    first, second = served([0.0, 0.001], instances=2)
    assert first == pytest.approx((0, 1 + 10 / 0.625))
    assert second == pytest.approx((1, 17 + (11 - 16 * 0.625)))


def test_an_advance_in_pieces_is_one_advance() -> None:
    random = np.random.default_rng(3)
    arrivals = np.zeros((400, 3))
    arrivals[:, 0] = np.sort(random.random(400))
    setting = Setting(0.005, 2, 8)
    whole = Replica("a", 0, 0, 0, setting, new_state(EXACT, 1), jit=False)
    pieces = Replica("b", 0, 0, 0, setting, new_state(EXACT, 1), jit=False)
    at_once = whole.advance(0.0, 3.0, arrivals, Pace(EXACT))
    parts = []
    for start in np.arange(0.0, 3.0, 0.25):
        mine = arrivals[(arrivals[:, 0] >= start) & (arrivals[:, 0] < start + 0.25)]
        parts.append(pieces.advance(start, start + 0.25, mine, Pace(EXACT)))
    np.testing.assert_allclose(np.concatenate(parts), at_once, atol=1e-9)
    np.testing.assert_allclose(pieces.state.counts, whole.state.counts)


def test_steps_are_counted_by_size() -> None:
    replica = Replica("one", 0, 0, 0, Setting(0.0, 1, 8), new_state(EXACT, 1), jit=False)
    rows = np.zeros((4, 3))
    rows[:, 0] = [0, 0.001, 0.002, 0.010]
    replica.advance(0.0, 1.0, rows, Pace(EXACT))
    assert replica.state.counts.tolist() == [0, 1, 0, 1, 0]
    assert replica.state.seconds.tolist() == pytest.approx([0, 0.011, 0, 0.013, 0])
    assert replica.state.busy[0] == pytest.approx(0.024)
