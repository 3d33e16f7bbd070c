"""What Triton, gate and driver cost vLLM: `python -m benchmarks.serving.overhead`, round about with vLLM alone.

Both run at the same time and take turns, so that what else the machine does meets both.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from benchmarks.figures import Figures, quick
from benchmarks.greedy import SMOLLM2
from benchmarks.serving.contender import start
from benchmarks.serving.workload import fixed
from llmserving.weights import prepare

RAW, SERVED = "vllm", "triton-vllm"
STREAMS = (16, 32)
ROUNDS = 7
GOAL = 0.97


def main() -> None:
    """Measures, prints, and writes `results/vllm_overhead.json`."""
    out = Figures("vllm_overhead")
    rates: dict[tuple[int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        contenders = start(prepare(SMOLLM2, Path(folder) / "model"), logs, (RAW, SERVED))
        try:
            for contender in contenders.values():
                contender.run(fixed(4, 1, tokens=16))
            for round_ in range(3 if quick() else ROUNDS):
                for streams in STREAMS:
                    load = fixed(streams, 2, seed=10_000 * (round_ + 1) + streams)
                    for name in (RAW, SERVED) if round_ % 2 == 0 else (SERVED, RAW):
                        rate = contenders[name].run(load).tokens_per_second
                        rates.setdefault((streams, name), []).append(rate)
                        print(f"{streams:3} streams {name:12} {rate:7.1f} tokens/s", flush=True)
        finally:
            for contender in contenders.values():
                contender.close()
    for streams in STREAMS:
        raw, served = rates[streams, RAW], rates[streams, SERVED]
        ratios = [ours / alone for ours, alone in zip(served, raw, strict=True)]
        out.add(f"vllm_driver_over_raw_{streams}", median(ratios), "ratio", goal=GOAL)
        out.add(f"vllm_driver_over_raw_{streams}_lowest", min(ratios), "ratio")
        out.add(f"vllm_driver_over_raw_{streams}_highest", max(ratios), "ratio")
        out.add(f"vllm_raw_{streams}", median(raw), "tokens/s")
        out.add(f"vllm_driver_{streams}", median(served), "tokens/s")
    out.write()


if __name__ == "__main__":
    main()
