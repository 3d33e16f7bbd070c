"""A contender as clients see it: a service behind gate and Triton, asked over HTTP."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import aiohttp

from benchmarks.serving.contender import LOG_LINES, ContenderError, Result, checked
from benchmarks.serving.driver import Arrived, drive
from benchmarks.serving.workload import Answer, Job, Load
from llmservice.api.batching import BatchingMode
from llmservice.api.engine import Backend
from llmservice.api.knobs import SLOT_LOOKAHEAD, Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.local.errors import LocalError
from llmservice.local.host import require_serving
from llmservice.local.tritonserver import TritonServer, TritonserverError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.layout import Paths
from llmservice.repository.render import render
from llmservice.repository.write import write_repository

NAME = "bench"
MAX_LENGTH = 2048
SEQUENCES = {BatchingMode.CONTINUOUS: 64, BatchingMode.STATIC: 16, BatchingMode.DYNAMIC: 16, BatchingMode.NONE: 1}
"""Batches of the modes that run them to completion have as many members as there are streams."""
DELAY = {BatchingMode.STATIC: timedelta(seconds=1), BatchingMode.DYNAMIC: timedelta(milliseconds=5)}
"""Time enough that a `Static` batch always fills while there are requests to come."""
PARAMETERS = {
    # As the contenders without Triton have it.
    Backend.VLLM: {"enable_prefix_caching": "false", "kv_cache_memory_bytes": str(1 << 30)},
    Backend.TORCH: {"cache_blocks": "3000"},
}


@dataclass(frozen=True)
class Served:
    """What is served: `dtype` as in `spec.model.dtype`, `parameters` beside those that all have."""

    backend: Backend
    mode: BatchingMode = BatchingMode.CONTINUOUS
    dtype: str = "auto"
    parameters: dict[str, str] = field(default_factory=dict)

    def manifest(self, model: Path) -> dict[str, object]:
        """The service over the weights in a folder."""
        parameters = {**PARAMETERS[self.backend], **self.parameters}
        spec = {
            "model": {"source": {"hostPath": {"path": str(model)}}, "dtype": self.dtype, "maxLength": MAX_LENGTH},
            "engine": {"backend": self.backend.value, "parameters": parameters},
            "batching": {"mode": self.mode.value, "maxBatchTokens": 2048},
        }
        return {"metadata": {"name": NAME}, "spec": spec}


class TritonContender:
    """The server in a process of its own, and its clients in this one."""

    def __init__(self, name: str, served: Served, model: Path, log: Path, start_seconds: float) -> None:
        self._name = name
        self._stack = ExitStack()
        started = time.perf_counter()
        try:
            server = self._stack.enter_context(_serving(served, model, log, start_seconds))
        except (TritonserverError, LocalError) as error:
            raise ContenderError(f"{name}: {error}") from error
        self.ready_seconds = time.perf_counter() - started
        self._server = server

    def run(self, load: Load, limit_seconds: float) -> Result:
        """See `Contender`."""
        try:
            answers = asyncio.run(self._drive(load, limit_seconds))
        except TimeoutError as error:
            raise ContenderError(f"{self._name}: {load.name} took longer than {limit_seconds:.0f} s") from error
        except (ExceptionGroup, aiohttp.ClientError, OSError) as error:
            first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            said = f"{type(first).__name__}: {first}"
            raise ContenderError(f"{self._name}: {said}\n{self._server.log_tail(LOG_LINES)}") from error
        return checked(self._name, load, answers)

    def close(self) -> None:
        """Stops the server."""
        self._stack.close()

    async def _drive(self, load: Load, limit_seconds: float) -> list[Answer]:
        url = f"{self._server.http_url}/v2/models/{NAME}/generate_stream"
        connector = aiohttp.TCPConnector(limit=0)
        async with asyncio.timeout(limit_seconds), aiohttp.ClientSession(connector=connector) as session:

            async def ask(job: Job, arrived: Arrived) -> None:
                await _ask(session, url, job, arrived)

            return await drive(load, ask)


async def _ask(session: aiohttp.ClientSession, url: str, job: Job, arrived: Arrived) -> None:
    body = {
        "text_input": job.prompt(),
        "stream": True,
        "max_tokens": job.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    async with session.post(url, json=body) as response:
        if response.status != 200:
            raise ContenderError(f"HTTP {response.status}: {(await response.text())[:300]}")
        async for line in response.content:
            if line.startswith(b"data:"):
                event = json.loads(line[5:])
                if "error" in event:
                    raise ContenderError(event["error"])
                tokens = event["token_ids"]
                arrived(len(tokens) if isinstance(tokens, list) else 1)


@contextmanager
def _serving(served: Served, model: Path, log: Path, start_seconds: float) -> Iterator[TritonServer]:
    sequences = SEQUENCES[served.mode]
    plan = CapacityPlan("cpu", "cpu", 0, max_sequences=sequences, max_length=MAX_LENGTH)
    knobs = Knobs(slots=sequences + SLOT_LOOKAHEAD, max_queue_delay=DELAY.get(served.mode, timedelta(0)))
    found = require_serving(served.backend)
    with ExitStack() as stack:
        folders = [Path(tempfile.mkdtemp(prefix="bench-", dir=parent)) for parent in (None, "/dev/shm")]
        for folder in folders:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        paths = Paths(run_directory=str(folders[1]), model_path=str(model))
        service = LLMService.parse(served.manifest(model))
        repository = render(service, plan, knobs, TritonFeatures.for_version("2.51.0"), paths)
        write_repository(repository, folders[0])
        server = TritonServer(
            folders[0],
            load_models=[one.name for one in repository.models],
            log=log,
            installation=found.installation,
            python=found.python,
            start_timeout=start_seconds,
        )
        yield stack.enter_context(server)
