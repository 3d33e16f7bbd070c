"""Runs the contenders against each other: `python -m benchmarks.serving [NAME …]`.

Names are `torch`, `torch-none`, `torch-dynamic`, `torch-static`, `generate` and `vllm`; without names all run, `vllm`
where its environment is. `QUICK=1` is one round of fewer requests.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.figures import RESULTS, Figures, quick
from benchmarks.greedy import SMOLLM2
from benchmarks.serving import plan, report
from benchmarks.serving.contender import VLLM_PYTHON, start
from llmserving.weights import prepare

NAMES = ("torch", "torch-none", "torch-dynamic", "torch-static", "generate", "vllm")
ROUNDS = 5


def main() -> None:
    """Measures, prints, and writes `results/serving.json`, `serving_runs.json` and `serving.svg`."""
    names = sys.argv[1:] or [name for name in NAMES if name != "vllm" or VLLM_PYTHON.is_file()]
    if "vllm" not in names:
        print(f"without vllm: {VLLM_PYTHON} is not there (make vllm brings it)")
    out = Figures("serving")
    rounds = plan.Rounds()
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        contenders = start(prepare(SMOLLM2, Path(folder) / "model"), logs, names)
        try:
            for case, name, result, rounds in plan.run(contenders, 1 if quick() else ROUNDS, short=quick()):  # noqa: B007
                print(f"{case:14} {name:14} {result.tokens_per_second:7.1f} tokens/s", flush=True)
        finally:
            for contender in contenders.values():
                contender.close()
    report.figures(rounds, contenders, out)
    out.write()
    report.write_runs(rounds, RESULTS / "serving_runs.json")
    report.write_picture(rounds, RESULTS / "serving.svg")


if __name__ == "__main__":
    main()
