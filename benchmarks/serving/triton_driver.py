"""A service behind gate and Triton, over HTTP as clients see it: `triton_driver FOLDER BACKEND`."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import aiohttp

from benchmarks.serving.driver import Run, Sender, serve
from benchmarks.serving.workload import Answer, Load
from llmservice.api.engine import Backend
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.local.host import require_serving
from llmservice.local.tritonserver import TritonServer
from llmservice.repository.features import TritonFeatures
from llmservice.repository.layout import Paths
from llmservice.repository.render import render
from llmservice.repository.write import write_repository

NAME = "bench"
MAX_SEQUENCES = 64
START_SECONDS = 1800
PARAMETERS = {
    # As the raw contenders of the same engine have it.
    Backend.VLLM: {"enable_prefix_caching": "false", "kv_cache_memory_bytes": str(1 << 30)},
    Backend.TORCH: {"cache_blocks": "3000"},
}


def prepare() -> Run:
    """The server with a model that is ready."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    server = stack.enter_context(_serving(Path(sys.argv[1]), Backend(sys.argv[2].lower())))
    url = f"{server.http_url}/v2/models/{NAME}/generate_stream"
    return lambda load: asyncio.run(_run(url, load))


@contextmanager
def _serving(model: Path, backend: Backend) -> Iterator[TritonServer]:
    service = LLMService.parse(
        {
            "metadata": {"name": NAME},
            "spec": {
                "model": {"source": {"hostPath": {"path": str(model)}}, "dtype": "bfloat16"},
                "engine": {"backend": backend.value, "parameters": PARAMETERS[backend]},
                "batching": {"mode": "Continuous", "maxBatchTokens": 2048},
            },
        }
    )
    plan = CapacityPlan("cpu", "cpu", 0, max_sequences=MAX_SEQUENCES, max_length=2048)
    knobs = Knobs(slots=MAX_SEQUENCES + 2, max_queue_delay=timedelta(0))
    found = require_serving(backend)
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    run_directory = Path(tempfile.mkdtemp(prefix="bench-", dir="/dev/shm"))
    try:
        paths = Paths(run_directory=str(run_directory), model_path=str(model))
        repository = render(service, plan, knobs, TritonFeatures.for_version("2.51.0"), paths)
        write_repository(repository, folder / "repository")
        names = [model.name for model in repository.models]
        with TritonServer(
            folder / "repository",
            load_models=names,
            log=folder / "log",
            installation=found.installation,
            python=found.python,
            start_timeout=START_SECONDS,
        ) as server:
            yield server
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(run_directory)


async def _run(url: str, load: Load) -> list[Answer]:
    answers = [Answer(0.0) for _ in load.jobs]
    sender = Sender(load)
    running: set[asyncio.Task[None]] = set()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        while not sender.done():
            for index in sender.due():
                running.add(asyncio.ensure_future(_one(session, url, load, index, answers[index], sender)))
            timeout = sender.wait() or None
            if running:
                ended, running = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
            else:
                await asyncio.sleep(timeout or 0)
    return answers


async def _one(
    session: aiohttp.ClientSession, url: str, load: Load, index: int, answer: Answer, sender: Sender
) -> None:
    job = load.jobs[index]
    body = {
        "text_input": job.prompt(),
        "stream": True,
        "max_tokens": job.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    answer.sent = sender.now()
    async with session.post(url, json=body) as response:
        async for line in response.content:
            if line.startswith(b"data:"):
                event = json.loads(line[5:])
                if "error" in event:
                    raise RuntimeError(event["error"])
                tokens = event["token_ids"]
                answer.times += [sender.now()] * (len(tokens) if isinstance(tokens, list) else 1)
    sender.answered()


if __name__ == "__main__":
    serve(prepare)
