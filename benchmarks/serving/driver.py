"""What drivers share: when to send which job, and the protocol of those that are processes of their own.

Such a process gets one load a line and answers with one line of times. Needs nothing outside Python, since they run in
environments of their own. A driver subclasses nothing: it gives `serve` a function from a load to its answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from benchmarks.serving.workload import Answer, Job, Load

Run = Callable[[Load], list[Answer]]
Arrived = Callable[[int], None]


def serve(prepare: Callable[[], Run]) -> None:
    """Says when it is ready and after how many seconds, then runs every load that comes, until there is no more."""
    with _own_stdout() as say:
        started = time.perf_counter()
        run = prepare()
        say({"ready": time.perf_counter() - started})
        for line in sys.stdin:
            say({"answers": [[answer.sent, answer.times] for answer in run(decode(json.loads(line)))]})


@contextlib.contextmanager
def _own_stdout() -> Iterator[Callable[[Any], None]]:
    """What libraries print must not stand between the lines of the protocol: it goes to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)

        def say(message: Any) -> None:
            out.write(json.dumps(message) + "\n")
            out.flush()

        yield say


def encode(load: Load) -> dict[str, Any]:
    """A load as JSON."""
    jobs = [[job.prompt_tokens, job.output_tokens, job.seed] for job in load.jobs]
    return {"name": load.name, "jobs": jobs, "streams": load.streams, "arrivals": load.arrivals}


def decode(raw: dict[str, Any]) -> Load:
    """A load from JSON."""
    return Load(raw["name"], tuple(Job(*job) for job in raw["jobs"]), raw["streams"], tuple(raw["arrivals"]))


class Sender:
    """Which jobs are due: the next of each free stream, or those whose arrival has come."""

    def __init__(self, load: Load, clock: Callable[[], float] = time.perf_counter) -> None:
        self._load = load
        self._clock = clock
        self._start = clock()
        self._next = 0
        self._busy = 0

    def now(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start

    def due(self) -> list[int]:
        """Jobs to send now; each is given once."""
        found = []
        while self._next < len(self._load.jobs) and self._is_due():
            found.append(self._next)
            self._next += 1
            self._busy += 1
        return found

    def answered(self) -> None:
        """One job has its whole answer."""
        self._busy -= 1

    def done(self) -> bool:
        """Whether every job was sent and answered."""
        return self._next == len(self._load.jobs) and self._busy == 0

    def wait(self) -> float | None:
        """Seconds until the next arrival; None when none is awaited."""
        if not self._load.arrivals or self._next == len(self._load.jobs):
            return None
        return max(0.0, self._load.arrivals[self._next] - self.now())

    def _is_due(self) -> bool:
        if self._load.arrivals:
            return self._load.arrivals[self._next] <= self.now()
        return self._busy < self._load.streams


async def drive(load: Load, ask: Callable[[Job, Arrived], Awaitable[None]]) -> list[Answer]:
    """Sends the jobs when they are due. `ask` sends one and calls back with the count of tokens whenever some arrived.

    Raises what `ask` raises, with the other requests cancelled.
    """
    answers = [Answer(0.0) for _ in load.jobs]
    sender = Sender(load)
    wake = asyncio.Event()

    async def one(index: int) -> None:
        answer = answers[index]

        def arrived(tokens: int) -> None:
            answer.times += [sender.now()] * tokens

        answer.sent = sender.now()
        await ask(load.jobs[index], arrived)
        sender.answered()
        wake.set()

    async with asyncio.TaskGroup() as group:
        while not sender.done():
            for index in sender.due():
                group.create_task(one(index))
            wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), sender.wait())
    return answers
