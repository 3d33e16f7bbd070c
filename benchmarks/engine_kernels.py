"""What the torch engine's kernels bring: decoding steps with and without them, in turn in one process.

Run as `python -m benchmarks.engine_kernels`, with `QUICK=1` for one round. Both engines compute in the processor's
fastest type, on all cores; the least time of a step says what the processor can, the median what this machine gave.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figures, quick
from benchmarks.greedy import SMOLLM2
from benchmarks.serving.workload import Job
from llmserving.engine import Request, SamplingParameters
from llmserving.weights import prepare
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions

KERNELS = ("native", "torch")
STREAMS = (1, 16, 32)
PROMPT_TOKENS, STEPS, ROUNDS = 64, 12, 5


def step_seconds(engine: TorchEngine, streams: int) -> tuple[float, list[float]]:
    """Seconds of the step that computes all prompts, and of each of the decoding steps after it."""
    sampling = SamplingParameters(max_tokens=STEPS + 4, temperature=0.0, ignore_eos=True)
    for key in range(streams):
        engine.add(Request(key, prompt=Job(PROMPT_TOKENS, 1, key).prompt(), sampling=sampling))
    taken = []
    for _ in range(STEPS + 1):
        started = time.perf_counter()
        engine.step()
        taken.append(time.perf_counter() - started)
    for key in range(streams):
        engine.cancel(key)
    while engine.has_work():
        engine.step()
    return taken[0], taken[1:]


def main() -> None:
    """Prints the figures."""
    figures = Figures("engine_kernels")
    with tempfile.TemporaryDirectory() as folder:
        weights = prepare(SMOLLM2, Path(folder))
        engines = {}
        for name in KERNELS:
            started = time.perf_counter()
            engines[name] = TorchEngine(
                EngineOptions(
                    weights, max_sequences=64, max_length=2048, cache_blocks=1024, prefix_caching=False, kernels=name
                )
            )
            figures.add(f"{name}_start", time.perf_counter() - started, "s", goal=10)
        for streams in STREAMS:
            prompts: dict[str, list[float]] = {name: [] for name in KERNELS}
            steps: dict[str, list[float]] = {name: [] for name in KERNELS}
            for _ in range(1 if quick() else ROUNDS):
                for name, engine in engines.items():
                    first, others = step_seconds(engine, streams)
                    prompts[name].append(first)
                    steps[name] += others
            for name in KERNELS:
                figures.add(f"{name}_prompts_{streams}", min(prompts[name]) * 1e3, "ms")
                figures.add(f"{name}_step_{streams}_least", min(steps[name]) * 1e3, "ms")
                figures.add(f"{name}_step_{streams}_median", statistics.median(steps[name]) * 1e3, "ms")
            ratio = statistics.median(steps["torch"]) / statistics.median(steps["native"])
            figures.add(f"native_speedup_{streams}", ratio, "times", goal=1.0, better="higher")
    figures.write()


if __name__ == "__main__":
    main()
