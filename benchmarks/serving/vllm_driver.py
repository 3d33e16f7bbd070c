"""vLLM's AsyncLLM without a server, in vLLM's own environment: `vllm_driver FOLDER DTYPE [eager]`."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import sys
from typing import Any

from benchmarks.serving.driver import Arrived, Run, drive, serve
from benchmarks.serving.workload import Job

# By name, since the environment of this checkout has no vLLM for a type checker to read.
vllm: Any = importlib.import_module("vllm")
AsyncEngineArgs: Any = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
AsyncLLM: Any = importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM
RequestOutputKind: Any = importlib.import_module("vllm.sampling_params").RequestOutputKind

MAX_SEQUENCES = 64
CACHE_BYTES = 1 << 30


def prepare() -> Run:
    """The engine with its defaults and room for 64 sequences; one event loop for all loads."""
    loop = asyncio.new_event_loop()
    folder, dtype, *rest = sys.argv[1:]
    arguments = AsyncEngineArgs(
        model=folder,
        dtype=dtype,
        max_model_len=2048,
        max_num_seqs=MAX_SEQUENCES,
        max_num_batched_tokens=2048,
        kv_cache_memory_bytes=CACHE_BYTES,
        enable_prefix_caching=False,
        enforce_eager="eager" in rest,
        disable_log_stats=True,
    )

    async def make() -> Any:
        return AsyncLLM.from_engine_args(arguments)

    engine = loop.run_until_complete(make())
    names = itertools.count()

    async def ask(job: Job, arrived: Arrived) -> None:
        sampling = vllm.SamplingParams(
            temperature=0.0, max_tokens=job.output_tokens, ignore_eos=True, output_kind=RequestOutputKind.DELTA
        )
        async for output in engine.generate(job.prompt(), sampling, str(next(names))):
            arrived(len(output.outputs[0].token_ids))

    return lambda load: loop.run_until_complete(drive(load, ask))


if __name__ == "__main__":
    serve(prepare)
