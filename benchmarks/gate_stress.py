"""Ten thousand random requests, clients that leave, deadlines, and processes that are killed: `make bench-gate-stress`.

`QUICK=1` sends 2,000. On the paced engine, whose tokens are known, so that each answer is checked. Rounds with a kill
end their server, as they must, and the next round starts another.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.figures import Figures, quick
from llmservice.repository.render import Role
from llmservice.triton.client import TritonClient
from llmservice.triton.live import set_engine_instances
from tests.serving.misuse import BATCHING, Misuse, misuse
from tests.serving.paced_service import NAME, Pace, PacedService, paced_service

PACE: Final = Pace(step_seconds=0.004, sequence_seconds=0.0001)
BEFORE_KILL: Final = 100
"""Requests before the ones that meet a kill."""
ENDLESS: Final = 1_000_000
SOON: Final = 60.0


async def stress(figures: Figures) -> None:
    """One long round without a kill, for memory, and a short one for each kind of kill."""
    requests = 2_000 if quick() else 10_000
    total = Misuse()
    with paced_service(PACE, BATCHING) as service:
        await _two_engines(service)
        total.add(await misuse(service.server.http_url, requests // 10, seed=1))
        before = _memory(service)
        total.add(await misuse(service.server.http_url, requests - requests // 10, seed=2))
        leaked = await _leaked(service)
        growth = _memory(service) - before
    victims = ("engine", "gate") * (1 if quick() else 5)
    for number, victim in enumerate(victims):
        leaked += await _killed(victim, number, total)
    for end, count in sorted(total.ends.items()):
        figures.add(f"stress_{end}", count, "requests")
    figures.add("stress_requests", total.requests, "requests", requests, "higher")
    figures.add("stress_kills", len(victims), "processes")
    figures.add("stress_wrong_answers", len(total.wrong), "requests", 0)
    figures.add("stress_stuck", total.stuck, "requests", 0)
    figures.add("stress_slots_leaked", leaked, "slots", 0)
    figures.add("stress_memory_growth", growth, "MB", 16)
    for wrong in total.wrong[:10]:
        print(f"wrong: {wrong}")


async def _killed(victim: str, seed: int, total: Misuse) -> int:
    """A round in which a process is killed while its clients go on. Returns slots that stayed held."""
    rng = random.Random(seed)
    with paced_service(PACE, BATCHING) as service:
        await _two_engines(service)
        total.add(await misuse(service.server.http_url, BEFORE_KILL, seed=100 + seed))
        kill = asyncio.Event()
        running = asyncio.create_task(misuse(service.server.http_url, ENDLESS, seed=200 + seed, kill=kill))
        await _until(lambda: service.held_slots() > PACE.max_sequences, "requests in both engines")
        model = NAME if victim == "gate" else f"{NAME}-engine"
        kill.set()
        os.kill(rng.choice(sorted(service.processes(model))), signal.SIGKILL)
        total.add(await running)
        if victim == "gate":
            await _until(lambda: not service.server.running(), "the server's end")
        return await _leaked(service)


async def _two_engines(service: PacedService) -> None:
    async with TritonClient(service.server.grpc_address) as client:
        await set_engine_instances(client, service.config(Role.ENGINE), 2)


async def _leaked(service: PacedService) -> int:
    """Slots that are held though nobody asks for anything any more."""
    try:
        await _until(lambda: service.held_slots() == 0, "every slot free")
    except TimeoutError:
        return service.held_slots()
    return 0


def _memory(service: PacedService) -> float:
    """Resident memory of gate and engines together, in MB."""
    pids = service.processes(NAME) | service.processes(f"{NAME}-engine")
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def _until(condition: Callable[[], bool], what: str) -> None:
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > SOON:
            raise TimeoutError(f"{what}: not within {SOON:g} s")
        await asyncio.sleep(0.02)


def main() -> None:
    """Entry point."""
    figures = Figures("gate_stress")
    asyncio.run(stress(figures))
    print(f"written to {figures.write()}")


if __name__ == "__main__":
    main()
