"""Brings live knobs to the server that runs here, by the same calls as the operator's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from llmservice.repository.render import Repository, Role
from llmservice.triton.client import TritonClient
from llmservice.triton.live import GateReloader, LiveChange, Outcome, set_engine_instances

RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True)
class LiveKnobs:
    """`gate_processes` counts processes that export as the gate: more than its instances, and an old gate drains."""

    address: str
    token: str
    gate_processes: Callable[[], Awaitable[int]]
    tell: Callable[[str], None]

    async def bring(self, repository: Repository) -> None:
        """Makes gate and engine run as `repository` says, one gate reload at a time; tells what it did.

        Waits as long as an older gate still serves its streams. Raises LiveChangeError, TritonError.
        """
        gate, engine = repository.config(Role.GATE), repository.config(Role.ENGINE)
        most: int = sum(group.count for group in gate.instance_group)

        async def old_gate_gone() -> bool:
            return await self.gate_processes() <= most

        async with TritonClient(self.address, self.token) as client:
            reloader = GateReloader(client, old_gate_gone)
            change = await reloader.reload(gate)
            if change.outcome is Outcome.DEFERRED:
                self.tell(f"waiting: {change.reason}")
            while change.outcome is Outcome.DEFERRED:
                await asyncio.sleep(RETRY_SECONDS)
                change = await reloader.reload(gate)
            self._told(change, "gate reloaded while its streams go on")
            count = sum(group.count for group in engine.instance_group)
            self._told(await set_engine_instances(client, engine, count), "engine changed in place")

    def _told(self, change: LiveChange, what: str) -> None:
        if change.outcome is Outcome.APPLIED:
            self.tell(f"applied: {what} ({change.reason}; {change.seconds:.1f} s)")
