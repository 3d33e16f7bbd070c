"""Brings live knobs to the server that runs here, by the same calls as the operator's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from llmservice.repository.render import Repository, Role
from llmservice.triton.client import TritonClient
from llmservice.triton.live import GateReloader, LiveChange, Outcome, set_engine_instances, set_slots

RETRY_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 300.0
"""How long an older gate may drain before the next reload goes on beside it: Triton can keep one for ever."""
MOST_GATES: Final = 3
"""Gates beyond which nothing is loaded any more: each costs two processes."""


@dataclass(frozen=True)
class LiveKnobs:
    """Control of the server at `address`. `gate_processes` counts the processes that export as the gate."""

    address: str
    token: str
    gate_processes: Callable[[], Awaitable[int]]
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic

    async def bring(self, repository: Repository, superseded: Callable[[], bool] = lambda: False) -> bool:
        """Makes gate and engine run as `repository` says, and tells what it did.

        Waits while an older gate serves its streams; False when `superseded` became true in that time, and nothing was
        changed. Raises LiveChangeError, TritonError.
        """
        gate, engine = repository.config(Role.GATE), repository.config(Role.ENGINE)
        instances: int = sum(group.count for group in gate.instance_group)
        started = self.clock()

        async def old_gate_gone() -> bool:
            there = await self.gate_processes()
            waited = self.clock() - started
            return there <= instances or (waited >= PATIENCE_SECONDS and there < instances * MOST_GATES)

        async with TritonClient(self.address, self.token) as client:
            reloader = GateReloader(client, old_gate_gone)
            change = await reloader.reload(gate)
            if change.outcome is Outcome.DEFERRED:
                self.tell(f"waiting: {change.reason}")
            while change.outcome is Outcome.DEFERRED:
                await asyncio.sleep(RETRY_SECONDS)
                if superseded():
                    return False
                change = await reloader.reload(gate)
            self._told(change, "gate loaded again, its streams go on")
            count = sum(group.count for group in engine.instance_group)
            self._told(await set_engine_instances(client, engine, count), "engine")
            self._told(await set_slots(client, engine), "engine")
        return True

    def _told(self, change: LiveChange, what: str) -> None:
        if change.outcome is Outcome.APPLIED:
            self.tell(f"applied in {change.seconds:.1f} s: {what} ({change.reason})")
