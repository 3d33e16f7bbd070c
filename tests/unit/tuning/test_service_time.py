"""t(b) from points by batch size: lines, hinges, and what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from llmservice.tuning.learnt import Learnt, learn
from llmservice.tuning.measured import RequestCounters, Steps
from llmservice.tuning.service_time import Point, ServiceTime, fit
from llmservice.tuning.settings import Limits
from llmservice.tuning.step_times import (
    SAME_WINDOWS,
    USUAL_GAINS,
    Busy,
    StepTimes,
    gains_of,
    learn_requests,
    learn_steps,
    mean_slowdown,
    service_time_of,
)
from tests.unit.tuning.windows import frame, knobs, window

pytestmark = pytest.mark.unit


def exact(sizes: list[int], overhead: float = 0.010, slope: float = 0.001) -> list[Steps]:
    return [Steps(size, 50.0, 50.0 * (overhead + slope * size)) for size in sizes]


def learnt(steps: list[Steps], windows: int = 3, instances: int = 1, busy: float = 0.6) -> StepTimes:
    memory = StepTimes()
    for _ in range(windows):
        memory = learn_steps(memory, steps, Busy(instances=instances, share=busy), 30.0)
    return memory


@given(
    overhead=st.floats(0.001, 0.1),
    slope=st.floats(0.0001, 0.01),
    sizes=st.sets(st.integers(1, 64), min_size=2, max_size=20),
)
@settings(deadline=None)
def test_a_line_is_found_exactly(overhead: float, slope: float, sizes: set[int]) -> None:
    found = fit([Point(size, overhead + slope * size, 10.0) for size in sizes])
    assert found is not None
    for size in sizes:
        assert found.seconds(size) == pytest.approx(overhead + slope * size, rel=1e-6)


def test_the_hinge_of_an_a100_is_found() -> None:
    """Linear operators of Llama-3-8B on an A100 (Vidur's profile): flat to 128 tokens, then 0.067 ms per token."""
    profile = [(1, 9.7), (32, 10.9), (64, 11.9), (128, 13.2), (256, 19.5), (384, 28.1), (512, 36.7), (640, 45.2)]
    found = fit([Point(size, milliseconds / 1000, 100.0) for size, milliseconds in profile])
    assert found is not None
    assert len(found.lines) == 2
    for size, milliseconds in profile:
        assert found.seconds(size) == pytest.approx(milliseconds / 1000, rel=0.10)


def test_one_batch_size_is_no_slope() -> None:
    found = fit([Point(1, 0.01, 100.0)])
    assert found is not None
    assert not found.identified
    assert found.seconds(1) == pytest.approx(0.01)
    assert found.seconds(8) > 0.01


def test_nothing_measured_is_no_service_time() -> None:
    assert fit([]) is None
    assert service_time_of(StepTimes(), 2) is None


def test_step_counters_give_times_within_two_percent() -> None:
    found = service_time_of(learnt(exact([1, 2, 5, 13, 40])), 1)
    assert found is not None
    assert found.exact
    for size in (1, 2, 5, 13, 40):
        assert found.seconds(size) == pytest.approx(0.010 + 0.001 * size, rel=0.02)


def test_an_engine_that_became_slower_is_noticed_within_two_windows() -> None:
    memory = learnt(exact([1, 4, 16, 32]), windows=100)
    slower = exact([1, 4, 16, 32], 0.013, 0.0013)
    for _ in range(2):
        memory = learn_steps(memory, slower, Busy(instances=1, share=0.6), 30.0)
    found = service_time_of(memory, 1)
    assert found is not None
    assert found.seconds(16) == pytest.approx(0.013 + 0.0013 * 16, rel=0.02)


def spaced(share: float = 0.35, rate: float = 400.0, delay: float = 0.02, instances: int = 3) -> Busy:
    return Busy(instances=instances, share=share, rate=rate, delay=delay)


def shared_for(windows: int, memory: StepTimes | None = None) -> StepTimes:
    """Three instances beside what one alone takes."""
    memory = learnt(exact([1, 4, 16, 32]), windows=100) if memory is None else memory
    for _ in range(windows):
        memory = learn_steps(memory, exact([1, 4, 16, 32]), spaced(), 30.0)
    return memory


SLOWER = exact([1, 4, 16, 32], 0.020, 0.0020)
"""Three instances that a delay spaces hardly overlap; 30 % slower ones do, and each step takes twice as long."""


def forgotten(memory: StepTimes) -> bool:
    """Whether what one instance alone takes is no longer known."""
    return {one.instances for one in memory.bins} == {3}


@pytest.mark.parametrize(
    ("now", "noticed"),
    [
        (spaced(0.7), True),
        (spaced(0.7, rate=425.0), True),
        (spaced(0.7, rate=500.0), False),
        (spaced(0.7, rate=300.0), False),
        (spaced(0.7, rate=0.0), False),
        (spaced(0.7, delay=0.04), False),
    ],
    ids=["the same load", "about the same", "more load", "less load", "no load is known", "another delay"],
)
def test_an_engine_that_became_slower_is_noticed_where_instances_share(now: Busy, *, noticed: bool) -> None:
    """Another load or delay does that, too. What was measured of one instance alone was kept for half an hour."""
    memory = shared_for(20)
    for _ in range(3):
        assert not forgotten(memory)
        memory = learn_steps(memory, SLOWER, now, 30.0)
    assert forgotten(memory) == noticed
    found = service_time_of(memory, 4)
    assert found is not None
    assert (found.seconds(16) > 1.05 * 0.026) == noticed


def test_an_engine_that_became_slower_is_forgotten_once() -> None:
    """What was usual before was compared with what was learnt after, and all of it forgotten again."""
    memory = shared_for(20)
    for _ in range(3):
        memory = learn_steps(memory, SLOWER, spaced(0.7), 30.0)
    for _ in range(20):
        memory = learn_steps(memory, SLOWER, spaced(0.7), 30.0)
    assert sum(one.count for one in memory.bins) > 3500, "of twenty-one windows of 200 steps"


@pytest.mark.parametrize("replicas", [1, 4])
def test_what_is_usual_is_of_one_replica_and_its_delay(replicas: int) -> None:
    in_force = knobs(replicas, delay=0.02, instances=3)
    signals = window(400.0 * replicas, in_force)
    found = learn(
        Learnt(), frame(limits=Limits(max_sequences=64, instances_in_memory=3)), signals, 1000.0, replicas, 200.0
    )
    (usual,) = found.steps.busy
    assert (usual.instances, usual.delay) == (3, 0.02)
    assert usual.rate == pytest.approx(400.0, rel=0.05)


def test_two_windows_in_a_row_are_no_other_engine_where_instances_share() -> None:
    """A burst at the same mean makes them overlap, too; what is usual is not moved by it."""
    memory = shared_for(20)
    usual = memory.busy[-1]
    for _ in range(5):
        for _ in range(2):
            memory = learn_steps(memory, SLOWER, spaced(0.7), 30.0)
            assert (memory.busy[-1].off, memory.busy[-1].rate) == (usual.off, usual.rate)
        memory = shared_for(8, memory)
        usual = memory.busy[-1]
    assert not forgotten(memory)


def test_what_is_usual_takes_four_windows_to_know() -> None:
    few = shared_for(3)
    for _ in range(2):
        few = learn_steps(few, SLOWER, spaced(0.7), 30.0)
    assert not few.drifted


def test_a_window_with_few_steps_does_not_say_what_is_usual() -> None:
    memory = shared_for(20)
    before = memory.busy[-1]
    memory = learn_steps(memory, [Steps(4, 10.0, 10.0)], spaced(0.9, rate=10.0), 30.0)
    after = memory.busy[-1]
    assert (after.rate, after.off, after.windows) == (before.rate, before.off, before.windows)
    assert after.share > before.share


def test_what_is_usual_is_remembered_within_bounds() -> None:
    memory = StepTimes.model_validate(shared_for(200).model_dump())
    assert memory.busy[-1].windows == SAME_WINDOWS
    for damaged in ({"share": 1e300}, {"share": -5.0}, {"off": 1e308}, {"windows": -(10**9)}, {"rate": float("nan")}):
        with pytest.raises(ValidationError):
            Busy.model_validate({"instances": 2, "share": 0.5, **damaged})
    assert Busy.model_validate({"instances": 2, "share": 0.5}).windows == 0, "as the version before wrote it"


def test_counters_by_request_are_corrected_for_the_size_a_request_sees() -> None:
    """Batches of 1 to 3 at equal counts: a request is in a batch of E[b²]/E[b] = 14/6 on average, not 2."""
    memory = StepTimes()
    for sizes in ((1, 2, 3), (4, 5, 6), (9, 10, 11)):
        seconds = sum(size * (0.01 + 0.001 * size) for size in sizes) * 100
        memory = learn_requests(memory, RequestCounters(100.0 * sum(sizes), 300.0, seconds))
    found = service_time_of(memory, 1)
    assert found is not None
    assert not found.exact
    for size in (2, 5, 10):
        assert found.seconds(size) == pytest.approx(0.01 + 0.001 * size, rel=0.10)


def test_what_sharing_an_accelerator_costs_is_learnt_and_not_taken_for_slow_steps() -> None:
    alone = learnt(exact([1, 4, 16, 32]))
    shared = [Steps(one.batch_size, one.count, one.seconds * 2.0) for one in exact([1, 4, 16, 32])]
    memory = alone
    for _ in range(5):
        memory = learn_steps(memory, shared, Busy(instances=2, share=0.98), 30.0)
    assert gains_of(memory, 2)[1] == pytest.approx(1.0, abs=0.05)
    found = service_time_of(memory, 2)
    assert found is not None
    assert found.seconds(16) == pytest.approx(0.026, rel=0.02)


def test_instances_that_overlap_less_than_by_chance_are_no_faster_engine() -> None:
    """With a delay, batches of two instances are spaced: neither did the engine change, nor is sharing free."""
    memory = learnt(exact([1, 4, 16, 32]))
    shared = [Steps(one.batch_size, one.count, one.seconds * 1.55) for one in exact([1, 4, 16, 32])]
    for _ in range(5):
        memory = learn_steps(memory, shared, Busy(instances=2, share=0.96), 30.0)
    for _ in range(5):
        memory = learn_steps(memory, exact([1, 4, 16, 32]), Busy(instances=2, share=0.5), 30.0)
    found = service_time_of(memory, 2)
    assert found is not None
    assert found.seconds(16) == pytest.approx(0.026, rel=0.02)
    assert gains_of(memory, 2) == USUAL_GAINS[:2]


def by_requests(sizes: tuple[int, ...], pace: float = 1.0) -> RequestCounters:
    seconds = sum(size * pace * (0.01 + 0.001 * size) for size in sizes) * 100
    return RequestCounters(100.0 * sum(sizes), 100.0 * len(sizes), seconds)


def test_counters_by_request_of_one_load_are_no_slope() -> None:
    memory = StepTimes()
    for _ in range(5):
        memory = learn_requests(memory, by_requests((4, 5, 6)))
    found = service_time_of(memory, 1)
    assert found is not None
    assert not found.identified
    memory = learn_requests(memory, by_requests((12, 14, 16)))
    found = service_time_of(memory, 1)
    assert found is not None
    assert found.identified


def test_counters_by_request_of_instances_that_share_are_kept_apart() -> None:
    memory = StepTimes()
    for sizes in ((1, 2, 3), (9, 10, 11)):
        memory = learn_requests(memory, by_requests(sizes))
    for sizes in ((1, 2, 3), (9, 10, 11)):
        memory = learn_requests(memory, by_requests(sizes, pace=1.6), 2)
    found = service_time_of(memory, 2)
    assert found is not None
    assert found.seconds(10) == pytest.approx(0.02, rel=0.1)


def test_a_load_that_is_new_to_so_many_instances_is_no_other_engine() -> None:
    memory = StepTimes()
    for sizes in ((1, 2, 3), (2, 3, 4)):
        memory = learn_requests(memory, by_requests(sizes))
    memory = learn_requests(memory, by_requests((9, 10, 11)), 2)
    for _ in range(2):
        memory = learn_requests(memory, by_requests((9, 10, 11), pace=2.0))
    assert {(one.instances, round(one.size)) for one in memory.requests} >= {(1, 2), (2, 11)}


def test_counters_by_request_remember_other_loads_and_forget_another_engine() -> None:
    memory = StepTimes()
    for sizes in ((1, 2, 3), *[(9, 10, 11)] * 100):
        memory = learn_requests(memory, by_requests(sizes))
    assert len(memory.requests) == 9, "a size for hours leaves no room for others"
    for _ in range(2):
        memory = learn_requests(memory, by_requests((9, 10, 11), pace=1.5))
    found = service_time_of(memory, 1)
    assert found is not None
    assert found.seconds(10) == pytest.approx(0.03, rel=0.1)


def test_gains_are_the_usual_ones_until_measured() -> None:
    assert gains_of(learnt(exact([1, 4, 16])), 4) == USUAL_GAINS


def test_slowdown_by_hand() -> None:
    """Two instances, the other busy half of the time: half alone, half at 1.25/2 of the speed."""
    assert mean_slowdown((1.0, 1.25), 2, 0.5) == pytest.approx(0.5 + 0.5 * 2 / 1.25)


def test_memory_is_bounded() -> None:
    memory = StepTimes()
    for size in range(1, 4096, 31):
        memory = learn_steps(memory, [Steps(size, 5.0, 0.1)], Busy(instances=1 + size % 4, share=0.5), 30.0)
    assert len(StepTimes.model_validate(memory.model_dump()).bins) <= 512


def test_scaled_service_time() -> None:
    assert ServiceTime(((0.01, 0.001),)).scaled(2.0).seconds(10) == pytest.approx(0.04)
