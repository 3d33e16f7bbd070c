"""The batcher a second time, written from its description with SimPy processes, to check the first one by.

Nothing is shared with `llmservice.tuning.simulator`: a process puts requests into a queue, one releases them, and one
for each instance takes what was released. Several instances share the accelerator by processor sharing: what is left to
do is computed again whenever a neighbour starts or ends.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import simpy

Process = Generator[Any, Any, None]
GAINS: Final = (1.0, 1.25, 1.35, 1.40)


@dataclass
class Service:
    """One replica. `latencies` are seconds of finished requests, `sizes` their batches."""

    environment: simpy.Environment
    overhead: float
    per_request: float
    largest: int
    delay: float
    instances: int
    queue: deque[float] = field(default_factory=deque)
    released: deque[float] = field(default_factory=deque)
    open_payload: int = 0
    busy: int = 0
    latencies: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changed = self.environment.event()
        self.came = self.environment.event()
        self.load_changed = self.environment.event()
        self.environment.process(self._release())
        for _ in range(self.instances):
            self.environment.process(self._instance())

    def put(self) -> None:
        """One request comes."""
        self.queue.append(self.environment.now)
        self._wake("came")

    def _wake(self, name: str) -> None:
        event = getattr(self, name)
        setattr(self, name, self.environment.event())
        event.succeed()

    def _release(self) -> Process:
        """Moves requests from the queue into payloads: when one is full, or when the oldest has waited."""
        while True:
            if not self.queue:
                yield self.came
                continue
            room = self.largest - self.open_payload
            left = self.queue[0] + self.delay - self.environment.now
            if len(self.queue) >= room:
                self._move(room)
                self.open_payload = 0
            elif left <= 1e-12:
                moved = len(self.queue)
                self._move(moved)
                self.open_payload += moved
            else:
                yield self.came | self.environment.timeout(left)

    def _move(self, count: int) -> None:
        for _ in range(count):
            self.released.append(self.queue.popleft())
        self._wake("changed")

    def _instance(self) -> Process:
        while True:
            if not self.released:
                yield self.changed
                continue
            batch = [self.released.popleft() for _ in range(min(self.largest, len(self.released)))]
            self.open_payload = min(self.open_payload, len(self.released))
            yield from self._compute(self.overhead + self.per_request * len(batch))
            self.sizes.append(len(batch))
            self.latencies += [self.environment.now - came for came in batch]

    def _compute(self, work: float) -> Process:
        self.busy += 1
        self._wake("load_changed")
        while work > 1e-12:
            speed = GAINS[self.busy - 1] / self.busy
            began = self.environment.now
            yield self.load_changed | self.environment.timeout(work / speed)
            work -= (self.environment.now - began) * speed
        self.busy -= 1
        self._wake("load_changed")


def simulate(
    rate: float,
    seconds: float,
    *,
    overhead: float,
    per_request: float,
    largest: int,
    delay: float,
    instances: int,
    seed: int,
) -> tuple[Sequence[float], Sequence[int]]:
    """Poisson arrivals for `seconds`. Returns latencies and sizes of batches, without a beginning of a tenth."""
    environment = simpy.Environment()
    service = Service(environment, overhead, per_request, largest, delay, instances)
    source = random.Random(seed)

    def arrivals() -> Process:
        while True:
            yield environment.timeout(source.expovariate(rate))
            service.put()

    environment.process(arrivals())
    environment.run(until=seconds)
    skip = len(service.latencies) // 10
    return service.latencies[skip:], service.sizes[len(service.sizes) // 10 :]
