"""Triton's dynamic batcher, simulated many times at once: every (instances, delay, load) is a lane of numpy arrays.

Rules, from Triton's core (`dynamic_batch_scheduler.cc`, `rate_limiter.cc`): the delay counts from the oldest request
that was not released; when it is over, all that wait are released together, and a full batch always is. An idle
instance takes what is released; what was not stays, so that a delay costs throughput where instances are never idle.
k busy instances of one accelerator run at g(k)/k of their speed each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning.service_time import ServiceTime

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOADS: Final = (0.04, 0.12, 0.24, 0.36, 0.48, 0.58, 0.63, 0.67, 0.71, 0.75, 0.785, 0.82, 0.85, 0.88, 0.91, 0.94)
"""Of the most that all instances together can do; where lanes are simulated: close together where tails bend, since
between them they are interpolated."""
EVENTS: Final = 220
WARM_UP: Final = 30
REPEATS: Final = 4
ASKED: Final = 8
"""Requests of a batch whose latency is looked at, evenly spread over it; each stands for its neighbours."""
BINS: Final = 96
"""Latencies are counted in bins of equal ratio, from half the fastest batch to `SPAN` times that."""
SPAN: Final = 400.0
EDGES: Final = SPAN ** (np.arange(BINS) / (BINS - 1))
"""Upper ends of the bins, in units of half of t(1)."""


@dataclass(frozen=True)
class Row:
    """One setting at every load of `LOADS`."""

    rates: Floats
    """(loads,) requests/s."""
    survival: Floats
    """(loads, BINS) share of requests slower than `unit · EDGES`."""
    mean: Floats
    """(loads,) mean latency in seconds."""
    busy: Floats
    """(loads,) share of time in which at least one instance ran."""
    unit: float


@dataclass(frozen=True)
class Setting:
    """What a replica's batcher is set to. `delay` in seconds."""

    instances: int
    delay: float


def surface(
    service_time: ServiceTime, largest: int, gains: tuple[float, ...], settings: tuple[Setting, ...]
) -> tuple[Row, ...]:
    """Latencies of every setting over load, one `Row` each, under Poisson arrivals.

    `gains[k - 1]` is what k busy instances do together in units of one. Deterministic: the same seed for every call, so
    that settings differ by what they do and not by their arrivals. What was simulated lately is not simulated again.
    """
    known = _known(service_time, largest, gains)
    missing = tuple(one for one in settings if one not in known)
    if missing:
        known |= zip(missing, _simulated(service_time, largest, gains, missing), strict=True)
    return tuple(known[one] for one in settings)


@lru_cache(maxsize=32)
def _known(service_time: ServiceTime, largest: int, gains: tuple[float, ...]) -> dict[Setting, Row]:
    """The rows of one engine so far."""
    _ = service_time, largest, gains
    return {}


def _simulated(
    service_time: ServiceTime, largest: int, gains: tuple[float, ...], settings: tuple[Setting, ...]
) -> tuple[Row, ...]:
    table = service_time.table(largest)
    capacity = np.array([_gain(gains, one.instances) * service_time.throughput(largest) for one in settings])
    rates = capacity[:, None] * np.array(LOADS)[None, :]
    lanes = _Lanes(
        rate=np.repeat(rates.ravel(), REPEATS),
        instances=np.repeat(np.array([one.instances for one in settings]), len(LOADS) * REPEATS),
        delay=np.repeat(np.array([one.delay for one in settings]), len(LOADS) * REPEATS),
        table=table,
        gains=np.array([_gain(gains, busy) for busy in range(1, max(one.instances for one in settings) + 1)]),
    )
    counts, sums, busy = lanes.run()
    shape = (len(settings), len(LOADS), REPEATS)
    counts = counts.reshape(*shape, BINS + 1).sum(axis=2)
    total = np.maximum(1.0, counts.sum(axis=2))
    survival = 1.0 - np.cumsum(counts, axis=2)[:, :, :BINS] / total[:, :, None]
    mean = sums.reshape(shape).sum(axis=2) / total
    share = busy.reshape(shape).mean(axis=2)
    unit = lanes.unit
    return tuple(Row(rates[i], survival[i], mean[i], share[i], unit) for i in range(len(settings)))


def _gain(gains: tuple[float, ...], busy: int) -> float:
    return gains[min(busy, len(gains)) - 1]


class _Lanes:
    """All lanes, stepped together: each step is a lane's next event, the start or the end of a batch."""

    def __init__(self, rate: Floats, instances: Floats, delay: Floats, table: Floats, gains: Floats) -> None:
        self.lanes = len(rate)
        self.rate, self.instances, self.delay = rate, instances, delay
        self.table, self.largest = table, len(table) - 1
        self.most = int(instances.max())
        self.speed = np.concatenate([[1.0], gains / np.arange(1, len(gains) + 1)])
        self.unit = 0.5 * float(table[1])
        random = np.random.default_rng(20210617)
        self.arrivals = np.cumsum(random.exponential(size=2 * EVENTS * min(self.largest, 256) + 4096))
        repeat = np.arange(self.lanes) % REPEATS
        self.first = (repeat * (len(self.arrivals) // (2 * REPEATS))).astype(np.int64)
        self.offset = np.where(self.first > 0, self.arrivals[np.maximum(self.first - 1, 0)], 0.0)

    def run(self) -> tuple[Floats, Floats, Floats]:
        """(lanes, BINS + 1) counts of latencies, (lanes,) their sums, (lanes,) share of busy time."""
        lanes, most = np.arange(self.lanes), self.most
        head, released = self.first.copy(), self.first.copy()
        now = np.zeros(self.lanes)
        work = np.full((self.lanes, most), np.inf)
        begin = np.zeros((self.lanes, most), np.int64)
        size = np.zeros((self.lanes, most), np.int64)
        busy_time, since = np.zeros(self.lanes), np.zeros(self.lanes)
        usable = np.arange(most)[None, :] < self.instances[:, None]
        done: list[tuple[Ints, Ints, Ints, Floats]] = []
        last = len(self.arrivals) - 1
        for event in range(EVENTS * 2):
            if event == 2 * WARM_UP:
                busy_time[:], since = 0.0, now.copy()
            running = np.isfinite(work)
            count = running.sum(axis=1)
            speed = self.speed[count]
            nearest = work.argmin(axis=1)
            ends = now + work[lanes, nearest] / speed
            fills = self._time(np.minimum(head + self.largest - 1, last))
            leaves = np.minimum(self._time(np.minimum(head, last)) + self.delay, fills)
            leaves = np.where(released > head, now, leaves)
            starts = np.where(count < self.instances, np.maximum(now, leaves), np.inf)
            starting = starts < ends
            then = np.where(starting, starts, ends)
            passed = then - now
            busy_time += np.where(count > 0, passed, 0.0)
            work -= np.where(running, (passed * speed)[:, None], 0.0)
            now = then
            if event >= 2 * WARM_UP:
                ended = np.flatnonzero(~starting)
                slot = nearest[ended]
                done.append((ended, begin[ended, slot], size[ended, slot], now[ended]))
            stop = np.flatnonzero(~starting)
            work[stop, nearest[stop]] = np.inf
            released[stop] = self._released(stop, np.maximum(released[stop], head[stop]), now[stop])
            go = np.flatnonzero(starting)
            if len(go):
                came = self._came(go, now[go])
                full = came - head[go] >= self.largest
                taken = np.where((released[go] > head[go]) & ~full, released[go], came) - head[go]
                taken = np.clip(taken, 1, self.largest)
                free = (~np.isfinite(work[go]) & usable[go]).argmax(axis=1)
                work[go, free] = self.table[taken]
                begin[go, free], size[go, free] = head[go], taken
                head[go] += taken
                released[go] = np.maximum(released[go], head[go])
            if head.max() + self.largest >= last:
                break
        return *self._count(done), busy_time / np.maximum(1e-12, now - since)

    def _time(self, index: Ints) -> Floats:
        """When each lane's request `index` arrives."""
        return np.asarray((self.arrivals[index] - self.offset) / self.rate)

    def _came(self, lanes: Ints, when: Floats) -> Ints:
        """How many requests came to each of `lanes` up to `when`."""
        units = when * self.rate[lanes] + self.offset[lanes] + 1e-9
        return np.asarray(np.searchsorted(self.arrivals, units, side="right"), dtype=np.int64)

    def _released(self, lanes: Ints, first: Ints, when: Floats) -> Ints:
        """How many requests of each of `lanes` were released up to `when`, of which `first` were so before.

        A release is followed from four delays before `when` on, since what it is does not depend on what was earlier.
        """
        delay = self.delay[lanes]
        found = np.maximum(first, self._came(lanes, when - 4.0 * delay))
        greedy = delay <= 0
        found[greedy] = np.maximum(found[greedy], self._came(lanes[greedy], when[greedy]))
        for _ in range(6):
            over = self._time_of(lanes, np.minimum(found, len(self.arrivals) - 1)) + delay
            due = np.flatnonzero(~greedy & (over <= when))
            if len(due) == 0:
                break
            found[due] = self._came(lanes[due], over[due])
        return found

    def _time_of(self, lanes: Ints, index: Ints) -> Floats:
        return np.asarray((self.arrivals[index] - self.offset[lanes]) / self.rate[lanes])

    def _count(self, done: list[tuple[Ints, Ints, Ints, Floats]]) -> tuple[Floats, Floats]:
        lane = np.concatenate([part[0] for part in done])
        begin = np.concatenate([part[1] for part in done])
        size = np.concatenate([part[2] for part in done])
        end = np.concatenate([part[3] for part in done])
        asked = np.minimum(size, ASKED)
        each = np.repeat(np.arange(len(lane)), asked)
        within = np.arange(len(each)) - np.repeat(np.cumsum(asked) - asked, asked)
        weight = (size / asked)[each]
        index = begin[each] + ((within + 0.5) * weight).astype(np.int64)
        where = lane[each]
        latency = end[each] - (self.arrivals[index] - self.offset[where]) / self.rate[where]
        scale = np.log(np.maximum(latency, 1e-12) / self.unit) * ((BINS - 1) / np.log(SPAN))
        bins = np.clip(np.ceil(scale), 0, BINS).astype(np.int64)
        counts = np.bincount(where * (BINS + 1) + bins, weight, self.lanes * (BINS + 1)).astype(float)
        sums = np.bincount(where, weight * latency, self.lanes).astype(float)
        return counts.reshape(self.lanes, BINS + 1), sums
