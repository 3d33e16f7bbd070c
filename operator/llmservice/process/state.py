"""What the process knows of itself; the health pages and the metrics read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from llmservice.kube.clock import Clock
from llmservice.kube.requests import Answered
from llmservice.reconcile.work_queue import Key, WorkQueue

LAG_PERIOD: Final = 0.5
LAG_LIMIT: Final = 10.0
"""Seconds by which the event loop may be late before the process counts as stuck."""
PASS_LIMIT: Final = 900.0
"""Seconds that one pass may take before the process counts as stuck."""


def _never() -> bool:
    return False


def _nothing() -> Mapping[Key, bool]:
    return {}


@dataclass
class ProcessState:
    """The state of one operator process."""

    clock: Clock
    queue: WorkQueue | None = None
    started: bool = False
    """Whether the start-up checks have passed: from then on the process is ready, leading or standing by."""
    leads: Callable[[], bool] = _never
    services: Callable[[], Mapping[Key, bool]] = _nothing
    desired_replicas: Callable[[], Mapping[Key, int]] = _nothing
    """Replicas that the tuner would have: what an autoscaler that owns them may follow."""
    loop_lag: float = 0.0
    last_answer: float | None = None
    round_trip: float | None = None
    """Seconds that the API server took for its last answer; None before the first."""

    def answered(self, call: Answered) -> None:
        """Notes an answer of the API server."""
        if call.status:
            self.last_answer = self.clock.monotonic()
            self.round_trip = call.seconds

    @property
    def seconds_since_answer(self) -> float | None:
        """How long ago the API server last answered; None before the first answer."""
        return None if self.last_answer is None else self.clock.monotonic() - self.last_answer

    @property
    def stuck(self) -> str:
        """Why a restart would help, in words; empty when it would not."""
        if self.loop_lag > LAG_LIMIT:
            return f"the event loop is {self.loop_lag:.1f} s late"
        if self.queue is not None and self.queue.longest_running > PASS_LIMIT:
            return f"a pass has been running for {self.queue.longest_running:.0f} s"
        return ""

    async def measure_lag(self, stop: asyncio.Event) -> None:
        """Measures how late the event loop is until `stop` is set."""
        while not stop.is_set():
            asked = self.clock.monotonic()
            await self.clock.wait(stop, LAG_PERIOD)
            self.loop_lag = max(0.0, self.clock.monotonic() - asked - LAG_PERIOD)
