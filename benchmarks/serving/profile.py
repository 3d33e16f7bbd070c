"""Where the time of a decoding step goes: `python -m benchmarks.serving.profile`.

One line for each part of the step, by torch's profiler, beside what the processor could do at best: the time to read
the weights once at its memory's pace, and to multiply them at its arithmetic's. On one thread, in seconds of its CPU
time: other work on the machine then stretches no figure except through the memory they share.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.figures import Figures
from benchmarks.model import smollm2
from benchmarks.serving.workload import Job
from llmserving.engine import Request, SamplingParameters
from llmtorch.config import ModelConfig
from llmtorch.engine import TorchEngine
from llmtorch.loader import choose_dtype
from llmtorch.options import EngineOptions

BATCHES = (1, 16, 64)
WARM_STEPS, STEPS = 12, 8
CONTEXT = 64
PARTS = {
    "matrices": ("_linear_pointwise", "aten::linear", "aten::addmm", "aten::mm"),
    "attention": ("_scaled_dot_product", "scaled_dot_product"),
    "gather and store": ("index_select", "index_copy", "aten::embedding"),
    "norms": ("rms_norm", "aten::pow", "aten::mean", "aten::rsqrt", "aten::sum"),
}
"""Parts by the names of torch's operators; what is in none is `other operators`."""


@dataclass(frozen=True)
class Bounds:
    """What the processor did at best, on one thread: bytes read and floating-point operations, a second each."""

    bytes_per_second: float
    flops: float

    def memory_seconds(self, size: int) -> float:
        """To read `size` bytes."""
        return size / self.bytes_per_second


def best_seconds(work: Callable[[], object], times: int = 5) -> float:
    """The least CPU time of this thread."""
    found = []
    for _ in range(times):
        started = time.thread_time()
        work()
        found.append(time.thread_time() - started)
    return min(found)


def measure_bounds(dtype: torch.dtype) -> Bounds:
    """Reads half a gigabyte, and multiplies two square matrices."""
    large = torch.zeros(1 << 27)
    square = torch.randn(2048, 2048).to(dtype)
    seconds = best_seconds(large.sum)
    return Bounds(large.nbytes / seconds, 2 * 2048**3 / best_seconds(lambda: square @ square))


def part_of(operator: str) -> str:
    """The part of the step that an operator belongs to."""
    return next((part for part, names in PARTS.items() if any(n in operator for n in names)), "other operators")


def measure(engine: TorchEngine, batch: int) -> dict[str, float]:
    """Milliseconds of a decoding step by part, and `all` without the profiler."""
    sampling = SamplingParameters(max_tokens=WARM_STEPS + 2 * STEPS + 8, temperature=0.0, ignore_eos=True)
    for key in range(batch):
        engine.add(Request(key, prompt=Job(CONTEXT, 1, key).prompt(), sampling=sampling))
    for _ in range(WARM_STEPS):
        engine.step()
    whole = best_seconds(engine.step, STEPS)
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        for _ in range(STEPS):
            engine.step()
    while engine.has_work():
        engine.step()
    parts: Counter[str] = Counter()
    for event in recorded.key_averages():
        parts[part_of(event.key)] += event.self_cpu_time_total / STEPS / 1e3
    return {"all": whole * 1e3, **parts}


def main() -> None:
    """Prints the table and the figures."""
    figures = Figures("serving_profile")
    torch.set_num_threads(1)
    weights = smollm2()
    options = EngineOptions(weights, max_sequences=64, max_length=1024, cache_blocks=1024, threads=1, kernels="torch")
    engine = TorchEngine(options)
    config = ModelConfig.load(weights)
    dtype = choose_dtype("auto", config, torch.device("cpu"))
    bounds = measure_bounds(dtype)
    layer = config.hidden_size * (config.q_size * 2 + config.kv_size * 2 + 3 * config.intermediate_size)
    numbers = config.num_layers * layer + config.vocab_size * config.hidden_size
    figures.add("memory_read", bounds.bytes_per_second / 1e9, "GB/s")
    figures.add("arithmetic", bounds.flops / 1e9, "GFLOP/s")
    figures.add("weights_read_at_best", bounds.memory_seconds(numbers * dtype.itemsize) * 1e3, "ms")
    for batch in BATCHES:
        figures.add(f"batch_{batch}_arithmetic_at_best", 2 * numbers * batch / bounds.flops * 1e3, "ms")
        for part, milliseconds in measure(engine, batch).items():
            figures.add(f"batch_{batch}_{part}", milliseconds, "ms")
    figures.write()


if __name__ == "__main__":
    main()
