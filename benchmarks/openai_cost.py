"""What the OpenAI endpoint costs: `python -m benchmarks.openai_cost`, on a real tritonserver with the paced engine.

The same gRPC client asks the gate, once from here and once from within the endpoint, whose clients then are ours over
HTTP. Both take turns. The paced engine leaves the processor to the others, so `openai_processor_time` tells what the
endpoint would take from an engine that does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp

from benchmarks.figures import Figures, Size, size
from benchmarks.operator_process import resident_megabytes
from benchmarks.serving.contender import Result, checked
from benchmarks.serving.driver import Arrived, drive
from benchmarks.serving.workload import Job, Load, fixed
from benchmarks.waiting import until
from llmservice.local.ports import free_ports
from llmservice.openai.generation import Generation
from llmservice.openai.triton_backend import TritonBackend
from tests.serving.paced_service import NAME, PacedService, paced_service

STREAMS: Final = 32
TOKENS: Final = 64
LONE_REQUESTS: Final = 20
FEW_TOKENS: Final = 4
TURNS: Final = {Size.FULL: 12, Size.QUICK: 4, Size.SMOKE: 1}
STOP_SECONDS: Final = 30.0
TICKS: Final = os.sysconf("SC_CLK_TCK")

Ask = Callable[[Job, Arrived], Awaitable[None]]


@dataclass(frozen=True)
class Endpoint:
    """The endpoint in a process of its own, as in a pod."""

    process: subprocess.Popen[bytes]
    url: str
    session: aiohttp.ClientSession

    def processor_seconds(self) -> float:
        """What it has computed so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    async def ask(self, job: Job, arrived: Arrived) -> None:
        """A streamed completion; an event is a token."""
        body = {"model": NAME, "prompt": job.prompt(), "max_tokens": job.output_tokens, "stream": True}
        async with self.session.post(f"{self.url}/v1/completions", json=body) as answer:
            if answer.status != 200:
                raise RuntimeError(f"HTTP {answer.status}: {await answer.text()}")
            async for line in answer.content:
                if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["text"]:
                    arrived(1)

    async def ready(self) -> bool:
        """Whether it and the gate take requests. Raises RuntimeError when it died."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the endpoint ended with {self.process.returncode}")
        try:
            async with self.session.get(f"{self.url}/health") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


def directly(backend: TritonBackend) -> Ask:
    """Asks the gate by gRPC."""

    async def ask(job: Job, arrived: Arrived) -> None:
        sampling = {"max_tokens": job.output_tokens}
        async for part in backend.generate(Generation(job.prompt(), None, sampling, stream=True, timeout_seconds=600)):
            if part.text:
                arrived(1)

    return ask


@asynccontextmanager
async def endpoint(service: PacedService, log: Path) -> AsyncIterator[Endpoint]:
    """Runs the endpoint in front of the service."""
    port, admin_port = free_ports(2)
    ports = [f"--port={port}", f"--admin-port={admin_port}", f"--triton={service.server.grpc_address}"]
    process = _start([f"--model={NAME}", *ports], log)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            found = Endpoint(process, f"http://127.0.0.1:{port}", session)
            await until(found.ready, "the endpoint serves", poll=0.05)
            yield found
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _start(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    program = "from llmservice.cli.main import main; main()"
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, "-c", program, "openai", *arguments], stdout=output, stderr=output)


async def measured(ask: Ask, load: Load) -> Result:
    """The load, asked so."""
    return checked("the paced engine", load, await drive(load, ask))


async def measure(figures: Figures) -> None:
    """Throughput of many streams, and the first token of a lone one, with and without the endpoint in turn."""
    rates: dict[str, list[float]] = {"endpoint": [], "grpc": []}
    firsts: dict[str, list[float]] = {"endpoint": [], "grpc": []}
    processor = []
    small = size() is Size.SMOKE
    many = fixed(4 if small else STREAMS, 1 if small else 4, TOKENS)
    lone = fixed(1, LONE_REQUESTS, FEW_TOKENS)
    with paced_service() as service, tempfile.TemporaryDirectory() as folder:
        async with (
            TritonBackend(service.server.grpc_address, NAME) as backend,
            endpoint(service, Path(folder) / "log") as openai,
        ):
            asked: dict[str, Ask] = {"endpoint": openai.ask, "grpc": directly(backend)}
            for turn in range(TURNS[size()]):
                for name in ("endpoint", "grpc") if turn % 2 else ("grpc", "endpoint"):
                    before = openai.processor_seconds()
                    rates[name].append((await measured(asked[name], many)).tokens_per_second)
                    if name == "endpoint":
                        processor.append((openai.processor_seconds() - before) / many.output_tokens)
                    alone = await measured(asked[name], lone)
                    firsts[name].append(median(answer.first_token for answer in alone.answers))
            memory = resident_megabytes(openai.process.pid)
    ratios = [ours / alone for ours, alone in zip(rates["endpoint"], rates["grpc"], strict=True)]
    figures.add("openai_throughput_over_grpc", median(ratios), "ratio", better="higher")
    figures.add("openai_throughput_over_grpc_lowest", min(ratios), "ratio")
    figures.add("openai_throughput_over_grpc_highest", max(ratios), "ratio")
    delays = [1000 * (ours - alone) for ours, alone in zip(firsts["endpoint"], firsts["grpc"], strict=True)]
    figures.add("openai_first_token_cost", median(delays), "ms")
    figures.add("openai_first_token_cost_lowest", min(delays), "ms")
    figures.add("openai_first_token_cost_highest", max(delays), "ms")
    figures.add("openai_first_token_over_grpc", median(firsts["endpoint"]) / median(firsts["grpc"]), "ratio")
    figures.add("openai_tokens_per_second", median(rates["endpoint"]), "tokens/s")
    figures.add("openai_processor_time", 1e6 * median(processor), "us/token")
    figures.add("openai_memory", memory, "MB")


def main() -> None:
    """Entry point."""
    figures = Figures("openai_cost")
    asyncio.run(measure(figures))
    print(f"written to {figures.write()}")


if __name__ == "__main__":
    main()
