"""Delay changes of a running service as the operator makes them: each when the gate before is gone."""

from __future__ import annotations

from datetime import timedelta

import aiohttp

from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.repository.render import Role
from llmservice.signals.scrape import Scraper
from llmservice.triton.client import TritonClient
from llmservice.triton.live import GateReloader, Outcome
from tests.serving.eventually import eventually_async
from tests.serving.paced_service import NAME, PacedService

WITHIN_SECONDS = 60.0


async def change_delay(service: PacedService, times: int) -> list[float]:
    """Changes the delay `times` times. Returns the seconds of each load call."""
    seconds: list[float] = []
    async with TritonClient(service.server.grpc_address) as client, aiohttp.ClientSession() as session:
        scraper = Scraper(session)

        async def old_gate_gone() -> bool:
            return (await scraper.read(service.server.metrics_url, NAME)).gate_processes == GATE_INSTANCES

        reloader = GateReloader(client, old_gate_gone)
        for number in range(1, times + 1):
            config = service.config(Role.GATE, max_queue_delay=timedelta(microseconds=500 * number))

            async def changed(config: object = config) -> bool:
                change = await reloader.reload(config)
                if change.outcome is Outcome.APPLIED:
                    seconds.append(change.seconds)
                return change.outcome is Outcome.APPLIED

            await eventually_async(changed, WITHIN_SECONDS, f"reload {number}")
    return seconds
