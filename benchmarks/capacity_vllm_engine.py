"""Makes vLLM's engine as the driver does, in a memory of a given size: `capacity_vllm.py` runs it.

Prints the tokens of its cache and the bytes that the process took before it loaded anything; with a count of requests
instead how many of these were inside at once and were answered to their length, and how many vLLM pushed out meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.control_group import MIB, control_group
from benchmarks.exact_prompt import prompt_of
from llmserving.engine import FinishReason, Request, SamplingParameters
from llmserving.engine_metrics import EngineMetrics
from llmserving.host_memory import host_memory
from llmserving.metrics import MemoryMetrics
from llmserving.parameters import Parameters
from llmserving.tokenizer import TextTokenizer
from llmvllm.environment import prepare
from llmvllm.options import EngineOptions

if TYPE_CHECKING:
    from llmvllm.engine import VllmEngine

PROMPT_TOKENS: Final = 32
"""Few, so that the last request is inside before the first has ended."""


@contextmanager
def made_engine(case: dict[str, int], weights: str) -> Iterator[tuple[VllmEngine, int]]:
    """The engine, within the limit of the case, and the bytes that this process took before."""
    options = EngineOptions.from_parameters(
        Parameters(
            {
                "model_path": weights,
                "max_sequences": str(case["sequences"]),
                "max_length": str(case["length"]),
                "memory_percent": str(case["percent"]),
                "dtype": "float32",
                "enforce_eager": "true",
            }
        )
    )
    prepare(options, os.environ)
    from llmvllm import start

    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with tempfile.TemporaryDirectory() as folder:
        vars(start)["host_memory"] = lambda: host_memory(*control_group(Path(folder), case["limit"] * MIB))
        engine = start.start_engine(options, EngineMetrics(), MemoryMetrics())
    try:
        yield engine, resident
    finally:
        engine.close()


def take(case: dict[str, int], weights: str) -> tuple[int, int]:
    """(tokens of the cache, bytes of this process before)."""
    with made_engine(case, weights) as (engine, resident):
        cache = engine._core._llm.vllm_config.cache_config  # type: ignore[attr-defined]  # noqa: SLF001 - what it took
        return cache.num_gpu_blocks * cache.block_size, resident


def serve(case: dict[str, int], weights: str, count: int, length: int) -> tuple[int, int, int]:
    """(requests inside at once, requests answered whole, preemptions) of `count` requests of `length` tokens."""
    woken = threading.Event()
    sampling = SamplingParameters(max_tokens=length - PROMPT_TOKENS, ignore_eos=True, temperature=0.0)
    at_once = answered = preempted = left = 0
    with made_engine(case, weights) as (engine, _):
        engine.wake_by(woken.set)
        tokenizer = TextTokenizer.load(Path(weights))  # after the engine, whose cache it would take from
        for key in range(count):
            engine.add(Request(key, prompt=prompt_of(tokenizer, key, PROMPT_TOKENS), sampling=sampling))
        left = count
        while left:
            woken.wait(1.0)
            woken.clear()
            ended = [output for output in engine.step() if output.ends_request]
            whole = [output for output in ended if output.finish_reason is FinishReason.LENGTH]
            answered += sum(one.num_input_tokens + one.num_output_tokens == length for one in whole)
            left -= len(ended)
            status = engine.status()
            at_once, preempted = max(at_once, status.running), status.preemptions
    return at_once, answered, preempted


if __name__ == "__main__":
    case, weights, *asked = json.loads(sys.argv[1]), *sys.argv[2:]
    print(json.dumps(serve(case, weights, *map(int, asked)) if asked else take(case, weights)))
