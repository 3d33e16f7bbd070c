"""vLLM's AsyncLLM without a server, in vLLM's own environment: `vllm_driver FOLDER`."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import sys
from typing import Any

from benchmarks.serving.driver import Run, Sender, serve
from benchmarks.serving.workload import Answer, Load

# By name, since the environment of this checkout has no vLLM for a type checker to read.
vllm: Any = importlib.import_module("vllm")
AsyncEngineArgs: Any = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
AsyncLLM: Any = importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM
RequestOutputKind: Any = importlib.import_module("vllm.sampling_params").RequestOutputKind

MAX_SEQUENCES = 64
CACHE_BYTES = 1 << 30


def prepare() -> Run:
    """The engine with its defaults, bfloat16, and room for 64 sequences; one event loop for all loads."""
    loop = asyncio.new_event_loop()
    arguments = AsyncEngineArgs(
        model=sys.argv[1],
        dtype="bfloat16",
        max_model_len=2048,
        max_num_seqs=MAX_SEQUENCES,
        max_num_batched_tokens=2048,
        kv_cache_memory_bytes=CACHE_BYTES,
        enable_prefix_caching=False,
        disable_log_stats=True,
    )

    async def make() -> Any:
        return AsyncLLM.from_engine_args(arguments)

    engine = loop.run_until_complete(make())
    names = itertools.count()
    return lambda load: loop.run_until_complete(_run(engine, names, load))


async def _run(engine: Any, names: itertools.count[int], load: Load) -> list[Answer]:
    answers = [Answer(0.0) for _ in load.jobs]
    sender = Sender(load)
    running: set[asyncio.Task[None]] = set()
    while not sender.done():
        for index in sender.due():
            running.add(asyncio.ensure_future(_one(engine, str(next(names)), load, index, answers[index], sender)))
        timeout = sender.wait() or None
        if running:
            ended, running = await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        else:
            await asyncio.sleep(timeout or 0)
    return answers


async def _one(engine: Any, name: str, load: Load, index: int, answer: Answer, sender: Sender) -> None:
    job = load.jobs[index]
    sampling = vllm.SamplingParams(
        temperature=0.0, max_tokens=job.output_tokens, ignore_eos=True, output_kind=RequestOutputKind.DELTA
    )
    answer.sent = sender.now()
    async for output in engine.generate(job.prompt(), sampling, name):
        answer.times += [sender.now()] * len(output.outputs[0].token_ids)
    sender.answered()


if __name__ == "__main__":
    serve(prepare)
