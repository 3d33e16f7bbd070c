"""The gate in figures, on a real tritonserver with the paced engine: `python -m benchmarks.gate`, `QUICK=1` for short.

Throughput at 32 streams against the engine's theoretical rate and against the engine without a gate, delay changes by
gRPC under load, how many engine steps a request outlives its client, and priorities under overload.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Final

import aiohttp

from benchmarks.figures import Figures, quick
from benchmarks.gate_cost import measure_cost
from benchmarks.gate_priorities import measure_priorities
from tests.serving.delay_changes import change_delay
from tests.serving.eventually import eventually
from tests.serving.paced_service import NAME, PacedService, paced_service
from tests.serving.streams import GrpcStream, stream_many

STREAMS: Final = 32
TOKENS: Final = 64
ENDLESS: Final = 100_000
SOON: Final = 10.0


async def throughput(service: PacedService, figures: Figures) -> float:
    """Tokens a second of 32 streams over 16 sequences."""
    rounds = 3 if quick() else 10
    rates = []
    for _ in range(rounds):
        load = await stream_many(service.server.http_url, STREAMS, 4 * STREAMS, TOKENS)
        assert load.whole, load.errors
        rates.append(load.tokens_per_second)
    rate = statistics.median(rates)
    figures.add("gate_tokens_per_second", rate, "tokens/s", 0.95 * service.pace.tokens_per_second, "higher")
    figures.add("gate_share_of_theoretical", 100 * rate / service.pace.tokens_per_second, "%", 95, "higher")
    return rate


async def reloads(service: PacedService, figures: Figures, steady: float) -> None:
    """Delay changes, one after the other, under 32 short streams and one that outlives several gates."""
    count = 20 if quick() else 50
    done = asyncio.Event()
    url = service.server.http_url
    running = asyncio.create_task(stream_many(url, STREAMS, 1000, 16, until=done.is_set))
    long = asyncio.create_task(stream_many(url, 1, 1, 600, until=done.is_set))
    seconds = await change_delay(service, count)
    done.set()
    load, across = await running, await long
    rate = load.tokens_per_second + across.tokens_per_second
    load.merged(across)
    await eventually(lambda: service.held_slots() == 0, SOON, "every stream's end")
    figures.add("reload_count", len(seconds), "reloads", 20, "higher")
    figures.add("reload_seconds", statistics.median(seconds), "s", 3)
    figures.add("reload_requests", load.requests, "requests", 1000, "higher")
    figures.add("reload_requests_failed", load.failed, "requests", 0)
    figures.add("reload_streams_shortened", load.shortened + load.disordered, "requests", 0)
    figures.add("reload_slots_lost", service.total_slots() - service.free_slots(), "slots", 0)
    figures.add("reload_throughput_loss", 100 * (1 - rate / steady), "%")


async def cancellation(service: PacedService, figures: Figures) -> None:
    """Engine steps from the moment a client leaves until its slot is free, by HTTP disconnect and by gRPC cancel."""
    step = service.pace.step_seconds + service.pace.sequence_seconds
    times = 10 if quick() else 50
    for kind, leave in (("http", hang_up), ("grpc", cancel)):
        steps = [(await leave(service)) / step for _ in range(times)]
        figures.add(f"cancel_steps_{kind}", statistics.median(steps), "steps", 25)
        figures.add(f"cancel_steps_{kind}_worst", max(steps), "steps")


async def hang_up(service: PacedService) -> float:
    """Seconds until the slot of an HTTP client that hung up is free."""
    body = {"text_input": "hello", "stream": True, "max_tokens": ENDLESS}
    async with aiohttp.ClientSession() as session:
        response = await session.post(f"{service.server.http_url}/v2/models/{NAME}/generate_stream", json=body)
        await response.content.readline()
        response.close()
        return await until(lambda: service.held_slots() == 0)


async def cancel(service: PacedService) -> float:
    """Seconds until the slot of a cancelled gRPC stream is free."""
    with GrpcStream(service.server.grpc_address, ENDLESS) as stream:
        await asyncio.to_thread(stream.text)
        stream.cancel()
        return await until(lambda: service.held_slots() == 0)


async def until(condition: Callable[[], bool]) -> float:
    """Seconds until `condition` holds, to the millisecond."""
    started = time.perf_counter()
    while not condition():
        if time.perf_counter() - started > SOON:
            raise TimeoutError(f"a slot was not free within {SOON:g} s")
        await asyncio.sleep(0.001)
    return time.perf_counter() - started


async def measure(figures: Figures) -> None:
    """All of it: reloads, what the gate costs, and priorities, each on a server of its own."""
    with paced_service() as service:
        steady = await throughput(service, figures)
        await cancellation(service, figures)
        await reloads(service, figures, steady)
    with paced_service() as service:  # another: the one before waits for batches as the last reload said
        await measure_cost(service, figures)
    await measure_priorities(figures)


def main() -> None:
    """Entry point."""
    figures = Figures("gate")
    asyncio.run(measure(figures))
    print(f"written to {figures.write()}")


if __name__ == "__main__":
    main()
