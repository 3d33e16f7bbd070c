"""Remembers step times by batch size and forgets them; knows when an engine became another one.

Times are kept by the number of instances that shared the accelerator, since those are slower for it. What they lose
gives g(k), what k busy instances do together in units of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb, exp, log
from typing import Annotated, Final

from pydantic import Field

from llmservice.tuning.measured import RequestCounters, Steps
from llmservice.tuning.memory import Memory, newest
from llmservice.tuning.service_time import Point, ServiceTime, fit

HALF_LIFE: Final = 1800.0
"""Seconds after which what was measured counts half."""
USUAL_GAINS: Final = (1.0, 1.25, 1.35, 1.40)
"""g(k) before it was measured: typical of small models (server#4037, #3443: sometimes there is no gain at all)."""
OWN_BINS: Final = 32
"""Batch sizes up to here are kept one by one, larger ones in bins of `BIN_RATIO`."""
BIN_RATIO: Final = 1.06
DRIFT: Final = 0.08
"""A window whose steps took that much longer or shorter than fitted, relatively, is another engine's ..."""
DRIFT_STEPS: Final = 60.0
"""... if it has so many of them, and the next window agrees."""
DRIFT_SHARED: Final = 0.16
"""Where instances share the accelerator: the same (as a logarithm) of what is usual there, while the load is ..."""
SAME_LOAD: Final = 0.08
"""... what it was, give or take so much (as a logarithm), if `SHARED_AGREE` windows in a row say so."""
SHARED_AGREE: Final = 3
SAME_WINDOWS: Final = 4
"""Windows with the same instances and delay that tell what is usual there."""
LEAST_BUSY: Final = 0.8
SURE_BUSY: Final = 0.95
"""Share of time instances are busy below which nothing, and from which everything, is believed of what they share.

A delay spaces batches, so that instances overlap less than by chance: half busy ones look as if sharing cost little.
"""
ENOUGH: Final = 20.0
"""Steps that make a figure."""
REQUEST_POINTS: Final = 80
POINTS_OF_A_SIZE: Final = 8
"""Windows of counters by request that are kept of one size, give or take a tenth: the slope is in how sizes differ."""
REQUEST_BIN: Final = 1.2
REQUEST_DRIFT: Final = 0.15
"""A window of counters by request that is so far off what is remembered is another engine's, if the next agrees."""
REQUEST_RANGE: Final = 1.5
"""The largest over the smallest size that make a slope of counters by request: each is off by some percent."""


class Bin(Memory):
    """Steps of like size with `instances` sharing the accelerator, decayed: counts, sequences and seconds."""

    instances: int
    key: int
    count: float
    items: float
    seconds: float


class Busy(Memory):
    """How it was lately while `instances` shared the accelerator: means of the last windows.

    `share` of time an instance was busy; sequences/s (`rate`) of a replica; `off`, the logarithm of how much longer
    steps took than all that is remembered says, with the same `delay` (seconds) for so many `windows`.
    """

    instances: Annotated[int, Field(ge=1)]
    share: Annotated[float, Field(ge=0, le=1)]
    rate: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    off: Annotated[float, Field(ge=-10, le=10)] = 0.0
    delay: Annotated[float, Field(ge=0)] = 0.0
    windows: Annotated[int, Field(ge=0, le=SAME_WINDOWS)] = 0


class RequestPoint(Memory):
    """One window of counters by request: mean size as a request sees it, its mean compute time, and the weight."""

    size: float
    seconds: float
    count: float
    instances: int = 1


class StepTimes(Memory):
    """What is remembered of step times."""

    bins: Annotated[tuple[Bin, ...], newest(512)] = ()
    busy: Annotated[tuple[Busy, ...], newest(16)] = ()
    requests: Annotated[tuple[RequestPoint, ...], newest(REQUEST_POINTS)] = ()
    drifted: int = 0


def bin_of(size: int) -> int:
    """The bin of a batch size."""
    if size <= OWN_BINS:
        return size
    return OWN_BINS + 1 + int(log(size / (OWN_BINS + 1)) / log(BIN_RATIO))


def learn_steps(memory: StepTimes, steps: Sequence[Steps], seen: Busy, seconds: float) -> StepTimes:
    """`memory` after a window of `seconds`; `seen` tells what instances shared the accelerator and how busy each was.

    What that says of earlier windows (`off`, `windows`) is found here.
    """
    steps = [one for one in steps if one.count > 0 and one.seconds > 0]
    instances = seen.instances
    before = next((one for one in memory.busy if one.instances == instances), None)
    off = _off(memory, steps, instances)
    to_agree = _windows_to_agree(off, seen, before)
    drifted = memory.drifted + 1 if to_agree else 0
    keep = 0.5 ** (seconds / HALF_LIFE)
    if to_agree and drifted >= to_agree:
        keep, drifted, off = 0.0, 0, 0.0
    bins: dict[tuple[int, int], Bin] = {}
    for old in memory.bins:
        # An engine that changed did so whoever shared its accelerator.
        factor = keep if old.instances == instances else keep ** (0.25 if keep else 1.0)
        if old.count * factor > 0.05:
            bins[old.instances, old.key] = old.model_copy(
                update={
                    "count": old.count * factor,
                    "items": old.items * factor,
                    "seconds": old.seconds * factor,
                }
            )
    for one in steps:
        key = (instances, bin_of(one.batch_size))
        had = bins.get(key) or Bin(instances=key[0], key=key[1], count=0, items=0, seconds=0)
        bins[key] = had.model_copy(
            update={
                "count": had.count + one.count,
                "items": had.items + one.count * one.batch_size,
                "seconds": had.seconds + one.seconds,
            }
        )
    shared = memory.busy
    if steps:
        others = tuple(one for one in memory.busy if one.instances != instances)
        shared = (*others, _blended(before, seen, None if drifted else off, min(keep, 0.8)))
    return memory.model_copy(update={"bins": tuple(bins.values()), "busy": shared, "drifted": drifted})


def _blended(before: Busy | None, seen: Busy, off: float | None, kept: float) -> Busy:
    """What is usual after a window, of which `before` counts for `kept`; with another delay that begins anew.

    A window whose `off` says nothing (None) moves only the share of time that instances are busy.
    """
    if before is None:
        return seen if off is None else seen.model_copy(update={"off": off, "windows": 1})
    share = seen.share + (before.share - seen.share) * kept
    if off is None and before.delay == seen.delay:
        return before.model_copy(update={"share": share})
    if kept == 0.0 or before.delay != seen.delay or before.windows == 0:
        return seen.model_copy(update={"share": share, "off": off or 0.0, "windows": int(off is not None)})
    return seen.model_copy(
        update={
            "share": share,
            "rate": seen.rate + (before.rate - seen.rate) * kept,
            "off": (off or 0.0) + (before.off - (off or 0.0)) * kept,
            "windows": min(SAME_WINDOWS, before.windows + 1),
        }
    )


def learn_requests(memory: StepTimes, counters: RequestCounters, instances: int = 1) -> StepTimes:
    """`memory` after a window of counters by request alone.

    A request sees the batch it is in, so the mean over requests is a + c · E[b²]/E[b]. E[b²] is not counted; for
    Poisson arrivals it is about b̄ + 1 - 1/b̄ times E[b] (within 8 % when simulated; far off under bursts, hence
    `exact=False`). `instances` share the accelerator: nothing tells by how much they slow each other down.
    """
    if counters.executions < ENOUGH or counters.requests < counters.executions:
        return memory
    mean = counters.requests / counters.executions
    point = RequestPoint(
        size=mean + 1.0 - 1.0 / mean,
        seconds=counters.compute_seconds / counters.requests,
        count=counters.executions,
        instances=instances,
    )
    kept, drifted = list(memory.requests), _request_drift(memory, point)
    if drifted >= 2:
        kept, drifted = [], 0
    alike = _points_like(kept, point)
    for old in alike[: max(0, len(alike) - POINTS_OF_A_SIZE + 1)]:
        kept.remove(old)
    return memory.model_copy(update={"requests": (*kept, point)[-REQUEST_POINTS:], "drifted": drifted})


def _points_like(points: Iterable[RequestPoint], point: RequestPoint) -> list[RequestPoint]:
    """Those of as many instances and of about the same size."""
    bin_of_size = int(log(point.size) / log(REQUEST_BIN))
    same = (one for one in points if one.instances == point.instances)
    return [one for one in same if int(log(one.size) / log(REQUEST_BIN)) == bin_of_size]


def _request_drift(memory: StepTimes, point: RequestPoint) -> int:
    """In how many windows in a row counters by request told of an engine that is not the one that is remembered."""
    known = _by_requests(memory, point.instances)
    if known is None or not _points_like(memory.requests, point):
        return 0
    ratio = point.seconds / known.seconds(point.size)
    return memory.drifted + 1 if not exp(-REQUEST_DRIFT) < ratio < exp(REQUEST_DRIFT) else 0


def _by_requests(memory: StepTimes, instances: int) -> ServiceTime | None:
    """t(b) by counters by request with so many instances. A slope takes sizes far enough apart."""
    points = [Point(one.size, one.seconds, one.count) for one in memory.requests if one.instances == instances]
    found = fit(points)
    if found is None:
        return None
    sizes = [point.size for point in points]
    apart = max(sizes) >= REQUEST_RANGE * min(sizes)
    return ServiceTime(found.lines, found.largest_seen, found.identified and apart, exact=False)


def gains_of(memory: StepTimes, most: int) -> tuple[float, ...]:
    """g(1), …, g(most): the usual ones, moved towards what was measured wherever several instances shared."""
    usual = [*USUAL_GAINS, *([USUAL_GAINS[-1]] * most)][:most]
    alone = fit(_points(memory, 1))
    scale = 1.0
    if alone is not None:
        for many in range(2, most + 1):
            measured, busy = _slowdown(memory, many, alone), _share(memory, many)
            if measured is not None:
                # Instances that are seldom busy together tell little of g.
                sure = min(1.0, max(0.0, (busy - LEAST_BUSY) / (SURE_BUSY - LEAST_BUSY)))
                scale += sure * (_gain_scale(measured, many, busy) - scale)
    return tuple(min(float(k), 1.0 + (gain - 1.0) * scale) for k, gain in enumerate(usual, start=1))


def service_time_of(memory: StepTimes, most: int) -> ServiceTime | None:
    """t(b), in seconds on the wall for a batch of b, of an instance alone on its accelerator; None: nothing was learnt.

    `most` is how many instances a replica may run. By what is trusted most, the first of: steps of one instance alone,
    of more than one batch size; steps of two to `most` instances, over what sharing costs them (`mean_slowdown`); steps
    of one batch size, whose slope is a guess (`identified` False); Triton's counters by request (`exact` False).
    """
    alone = fit(_points(memory, 1))
    if alone is not None and alone.identified:
        return alone
    gains = gains_of(memory, most)
    for many in range(2, most + 1):
        shared = fit(_points(memory, many))
        if shared is not None:
            return shared.scaled(1.0 / mean_slowdown(gains, many, _share(memory, many)))
    if alone is not None:
        return alone
    counted = [one for many in range(1, most + 1) if (one := _by_requests(memory, many)) is not None]
    return counted[0] if counted else None


def mean_slowdown(gains: Sequence[float], instances: int, busy: float) -> float:
    """How much longer a batch takes for sharing the accelerator with `instances - 1` that are each busy for `busy`.

    k busy ones run at g(k)/k each; the others are taken as busy independently.
    """
    others = instances - 1
    return sum(
        comb(others, k) * busy**k * (1.0 - busy) ** (others - k) * (k + 1) / gains[min(k, len(gains) - 1)]
        for k in range(instances)
    )


def _points(memory: StepTimes, instances: int) -> list[Point]:
    return [
        Point(one.items / one.count, one.seconds / one.count, one.count)
        for one in memory.bins
        if one.instances == instances and one.count >= 0.5
    ]


def _share(memory: StepTimes, instances: int) -> float:
    return next((one.share for one in memory.busy if one.instances == instances), 0.5)


def _slowdown(memory: StepTimes, instances: int, alone: ServiceTime) -> float | None:
    points = _points(memory, instances)
    if sum(point.count for point in points) < 5 * ENOUGH or _share(memory, instances) < LEAST_BUSY:
        return None
    expected = sum(point.count * alone.seconds(point.size) for point in points)
    return sum(point.count * point.seconds for point in points) / expected if expected > 0 else None


def _gain_scale(measured: float, instances: int, busy: float) -> float:
    """The factor on g(k) - 1 that explains a slowdown; 0: no gain at all."""
    low, high = 0.0, 4.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        gains = [min(float(k), 1.0 + (gain - 1.0) * middle) for k, gain in enumerate(USUAL_GAINS, start=1)]
        if mean_slowdown(gains, instances, busy) > measured:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _off(memory: StepTimes, steps: Sequence[Steps], instances: int) -> float | None:
    """The logarithm of how much longer steps took than what is remembered says; None: that says nothing."""
    known = fit(_points(memory, instances))
    count = sum(one.count for one in steps)
    if known is None or not known.identified or count < DRIFT_STEPS:
        return None
    inside = [one for one in steps if one.batch_size <= known.largest_seen]
    expected = sum(one.count * known.seconds(one.batch_size) for one in inside)
    return log(sum(one.seconds for one in inside) / expected) if expected > 0 else None


def _windows_to_agree(off: float | None, seen: Busy, before: Busy | None) -> int:
    """How many windows in a row must say, as this one does, that the engine is another one; 0: this one does not.

    How much instances overlap changes with the load and the delay: that alone explains as much as sharing costs, unless
    both are what they were.
    """
    if off is None:
        return 0
    most = log(seen.instances / USUAL_GAINS[min(seen.instances, len(USUAL_GAINS)) - 1])
    if abs(off) > DRIFT + most:
        return 2
    if before is None or seen.instances == 1 or before.windows < SAME_WINDOWS or before.delay != seen.delay:
        return 0
    same = before.rate > 0 and seen.rate > 0 and abs(log(seen.rate / before.rate)) < SAME_LOAD
    return SHARED_AGREE if same and abs(off - before.off) > DRIFT_SHARED else 0
