"""One replica whose batches run to completion: Triton's dynamic batcher before `instances` that share an accelerator.

The batcher's rules, from Triton's core (`dynamic_batch_scheduler.cc`, `rate_limiter.cc`): the delay counts from the
oldest request that is in no payload; a payload leaves the queue when it is full or that request has waited; a payload
that no instance runs yet keeps growing, up to the largest batch; payloads that wait are merged when an instance takes
them. Preferred sizes are left empty, so that the only preferred size is the largest.

`busy` instances run at `gains[busy - 1] / busy` of their own speed each (processor sharing with a measured gain).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_INSTANCES = 8


@dataclass
class BatchState:
    """What one replica remembers between calls. `payload` holds [requests released, requests of the open payload]."""

    max_batch: int
    payload: Ints = field(default_factory=lambda: np.zeros(2, np.int64))
    work: Floats = field(default_factory=lambda: np.zeros(MOST_INSTANCES))
    """Seconds of its own speed that each instance still has to do."""
    started: Floats = field(default_factory=lambda: np.zeros(MOST_INSTANCES))
    size: Ints = field(default_factory=lambda: np.zeros(MOST_INSTANCES, np.int64))
    """Requests in each instance's batch; 0 for an idle one."""
    members: Floats = field(init=False)
    """Arrival times of the requests in each instance's batch."""
    counts: Floats = field(init=False)
    """Finished batches by size, since the replica started."""
    seconds: Floats = field(init=False)
    """What they took, on the wall, by size."""
    noise: NDArray[np.uint64] = field(default_factory=lambda: np.array([88172645463325252], np.uint64))
    busy: Floats = field(default_factory=lambda: np.zeros(1))
    """Seconds in which at least one instance ran."""

    def __post_init__(self) -> None:
        self.members = np.zeros((MOST_INSTANCES, self.max_batch))
        self.counts = np.zeros(self.max_batch + 1)
        self.seconds = np.zeros(self.max_batch + 1)


def advance_batches(  # noqa: C901 - compiled as one loop
    clock: float,
    until: float,
    queue: Floats,
    delay: float,
    instances: int,
    overhead: float,
    per_request: float,
    jitter: float,
    speed: float,
    gains: Floats,
    payload: Ints,
    work: Floats,
    started: Floats,
    size: Ints,
    members: Floats,
    counts: Floats,
    seconds: Floats,
    noise: NDArray[np.uint64],
    busy_seconds: Floats,
    out: Floats,
) -> tuple[int, int]:
    """Runs one replica from `clock` to `until`. Returns how many of `queue` began, and how many rows of `out` it wrote.

    `queue` holds arrival times in order, those that still wait first. A batch of b takes `overhead + per_request * b`
    seconds times a factor of standard deviation `jitter`. Each row of `out` is (arrival, start, finish), in seconds.
    """
    max_batch = counts.shape[0] - 1
    head, written = 0, 0
    seen = np.searchsorted(queue, clock, side="right")
    never = np.inf
    now = clock
    while True:
        # What waits leaves the queue: a full payload at once, the rest when its oldest has waited.
        waiting = seen - head - payload[0]
        while waiting > 0 and payload[1] + waiting >= max_batch:
            full = max_batch - payload[1]
            payload[0] += full
            payload[1] = 0
            waiting -= full
        release_at = never
        if waiting > 0:
            release_at = queue[head + payload[0]] + delay
            if release_at <= now:
                payload[0] += waiting
                payload[1] += waiting
                release_at = never
        # Idle instances take payloads.
        busy, idle, next_work = 0, -1, never
        for instance in range(size.shape[0]):
            if size[instance] == 0:
                if idle < 0:
                    idle = instance
            else:
                busy += 1
                next_work = min(next_work, work[instance])
        if payload[0] > 0 and busy < instances and idle >= 0:
            taken = min(max_batch, payload[0])
            payload[0] -= taken
            payload[1] = 0 if payload[0] == 0 else min(payload[1], payload[0])
            factor = 1.0
            if jitter > 0.0:
                total = 0.0
                for _ in range(4):
                    noise[0] ^= noise[0] << np.uint64(13)
                    noise[0] ^= noise[0] >> np.uint64(7)
                    noise[0] ^= noise[0] << np.uint64(17)
                    total += (noise[0] >> np.uint64(11)) * 1.1102230246251565e-16
                factor = max(0.5, 1.0 + jitter * (total - 2.0) * 1.7320508075688772)
            work[idle] = (overhead + per_request * taken) * factor
            started[idle] = now
            size[idle] = taken
            for index in range(taken):
                members[idle, index] = queue[head + index]
            head += taken
            continue
        rate = speed * gains[busy - 1] / busy if busy > 0 else 0.0
        arrival_at = queue[seen] if seen < queue.shape[0] else never
        finish_at = now + next_work / rate if busy > 0 else never
        following = min(arrival_at, finish_at, release_at, until)
        if busy > 0:
            for instance in range(size.shape[0]):
                if size[instance] > 0:
                    work[instance] -= (following - now) * rate
            busy_seconds[0] += following - now
        now = following
        if finish_at <= following:
            for instance in range(size.shape[0]):
                if size[instance] > 0 and work[instance] <= 1e-9:
                    number = size[instance]
                    counts[number] += 1
                    seconds[number] += now - started[instance]
                    for index in range(number):
                        out[written, 0] = members[instance, index]
                        out[written, 1] = started[instance]
                        out[written, 2] = now
                        written += 1
                    size[instance] = 0
        if arrival_at <= following:
            seen += 1
        if following >= until:
            return head, written
