"""Where the time of a decoding step goes: `python -m benchmarks.serving.profile`.

One line for each part of the step, beside what the processor could do at best: the time to read the weights once at its
memory's pace, and to multiply them at its arithmetic's. By the kernels on all cores, as they count it themselves by the
clock; and by torch's operators on one thread, by torch's profiler, in seconds of its CPU time: other work then
stretches no figure except through the memory they share.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.figures import Figures
from benchmarks.model import smollm2
from benchmarks.serving.workload import Job
from llmserving.engine import Request, SamplingParameters
from llmtorch.config import ModelConfig
from llmtorch.engine import TorchEngine
from llmtorch.loader import choose_dtype, processor_count
from llmtorch.options import EngineOptions, OptionError

BATCHES = (1, 16, 64)
WARM_STEPS, STEPS, ROUNDS = 12, 8, 5
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
    """What the processor did at best: bytes read and floating-point operations, a second each."""

    bytes_per_second: float
    flops: float

    def memory_seconds(self, size: int) -> float:
        """To read `size` bytes."""
        return size / self.bytes_per_second


def best_seconds(work: Callable[[], object], clock: Callable[[], float], times: int = 5) -> float:
    """The least that one of `times` takes."""
    found = []
    for _ in range(times):
        started = clock()
        work()
        found.append(clock() - started)
    return min(found)


def measure_bounds(dtype: torch.dtype, clock: Callable[[], float]) -> Bounds:
    """Reads half a gigabyte, and multiplies two square matrices, on the threads that torch has."""
    large = torch.zeros(1 << 27)
    square = torch.randn(2048, 2048).to(dtype)
    seconds = best_seconds(large.sum, clock)
    return Bounds(large.nbytes / seconds, 2 * 2048**3 / best_seconds(lambda: square @ square, clock))


def part_of(operator: str) -> str:
    """The part of the step that an operator belongs to."""
    return next((part for part, names in PARTS.items() if any(n in operator for n in names)), "other operators")


def begin(engine: TorchEngine, batch: int, steps: int) -> None:
    """Brings `batch` sequences to where each step is a token of each, for `steps` steps."""
    sampling = SamplingParameters(max_tokens=WARM_STEPS + steps + 8, temperature=0.0, ignore_eos=True)
    for key in range(batch):
        engine.add(Request(key, prompt=Job(CONTEXT, 1, key).prompt(), sampling=sampling))
    for _ in range(WARM_STEPS):
        engine.step()


def end(engine: TorchEngine) -> None:
    """Ends them."""
    while engine.has_work():
        engine.step()


def measure_kernels(engine: TorchEngine, batch: int) -> dict[str, float]:
    """Milliseconds of a decoding step on all cores by part, the least of each of `ROUNDS`."""
    rounds: list[dict[str, float]] = []
    begin(engine, batch, ROUNDS * STEPS)
    for _ in range(ROUNDS):
        before, started = engine.part_seconds(), time.perf_counter()
        for _ in range(STEPS):
            engine.step()
        all_seconds = time.perf_counter() - started
        parts = {part: seconds - before[part] for part, seconds in engine.part_seconds().items()}
        parts["scheduler, sampling, text"] = all_seconds - sum(parts.values())
        rounds.append({part: seconds / STEPS * 1e3 for part, seconds in {"all": all_seconds, **parts}.items()})
    end(engine)
    return {part: min(one[part] for one in rounds) for part in rounds[0]}


def measure_operators(engine: TorchEngine, batch: int) -> dict[str, float]:
    """Milliseconds of a decoding step on one thread by part, and `all` without the profiler."""
    begin(engine, batch, 2 * STEPS)
    whole = best_seconds(engine.step, time.thread_time, STEPS)
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        for _ in range(STEPS):
            engine.step()
    end(engine)
    parts: Counter[str] = Counter()
    for event in recorded.key_averages():
        parts[part_of(event.key)] += event.self_cpu_time_total / STEPS / 1e3
    return {"all": whole * 1e3, **parts}


def report(
    figures: Figures, kernels: str, threads: int, clock: Callable[[], float], measure: Callable[..., dict[str, float]]
) -> None:
    """The figures of an engine with `kernels`, each named after them."""
    torch.set_num_threads(threads)
    weights = smollm2()
    config = ModelConfig.load(weights)
    dtype = choose_dtype("auto", config, torch.device("cpu"))
    bounds = measure_bounds(dtype, clock)
    layer = config.hidden_size * (config.q_size * 2 + config.kv_size * 2 + 3 * config.intermediate_size)
    numbers = config.num_layers * layer + config.vocab_size * config.hidden_size
    figures.add(f"{kernels}_memory_read", bounds.bytes_per_second / 1e9, "GB/s")
    figures.add(f"{kernels}_arithmetic", bounds.flops / 1e9, "GFLOP/s")
    figures.add(f"{kernels}_weights_read_at_best", bounds.memory_seconds(numbers * dtype.itemsize) * 1e3, "ms")
    options = EngineOptions(weights, max_sequences=64, max_length=1024, cache_blocks=1024, threads=threads)
    try:
        engine = TorchEngine(replace(options, kernels=kernels))
    except OptionError as error:
        figures.missing(f"{kernels}_batch_{BATCHES[0]}_all", "ms", str(error))
        return
    for batch in BATCHES:
        figures.add(f"{kernels}_batch_{batch}_arithmetic_at_best", 2 * numbers * batch / bounds.flops * 1e3, "ms")
        for part, milliseconds in measure(engine, batch).items():
            figures.add(f"{kernels}_batch_{batch}_{re.sub('[^a-z]+', '_', part)}", milliseconds, "ms")
    engine.close()


def main() -> None:
    """Prints the figures."""
    figures = Figures("serving_profile")
    report(figures, "native", processor_count(), time.perf_counter, measure_kernels)
    report(figures, "torch", 1, time.thread_time, measure_operators)
    figures.write()


if __name__ == "__main__":
    main()
