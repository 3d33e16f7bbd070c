"""Runs the contenders against each other: `python -m benchmarks.serving [NAME …]`, all without names.

Names are those of `roster.NAMES`; vLLM's need the environment that `make vllm` brings. At full length it takes at most
40 minutes, with `MINUTES=n` as many (fewer passes through the same loads, starts included), with `QUICK=1` ten;
`SMOKE=1` goes once through everything with a few tokens. With `TRACES=FOLDER` the
conversation trace of Azure is played too, scaled down: FOLDER has `azure2023_conv.csv`, which is
AzureLLMInferenceTrace_conv.csv of https://github.com/Azure/AzurePublicDataset.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import torch

from benchmarks.figures import RESULTS, ROOT, Figures, Size, size
from benchmarks.model import smollm2
from benchmarks.serving import plan, report
from benchmarks.serving.roster import NAMES, VLLM_PYTHON, Roster, maker
from llmservice.tuning.simulator.load import Load as Trace
from llmservice.tuning.simulator.series import parse_trace
from llmtorch.loader import cpu_dtype

TRACE_FILE: Final = "azure2023_conv.csv"
IMAGES: Final = ROOT / "docs" / "images"
STARTED_AT_ONCE: Final = 2


def main() -> None:
    """Measures, prints, and writes figures, runs and pictures to `results/`; those of a full run go into docs too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # servers are stopped on the way out
    began = time.monotonic()
    names = sys.argv[1:] or list(NAMES)
    if unknown := sorted(set(names) - set(NAMES)):
        sys.exit(f"no contender is called {', '.join(unknown)}: write some of {', '.join(NAMES)}")
    asked = size()
    budget = plan.read_minutes(os.environ.get("MINUTES", ""))
    trace = read_trace(os.environ.get("TRACES"))
    out = Figures("serving" if len(names) == len(NAMES) else "serving_some")
    dtype = cpu_dtype()
    with tempfile.TemporaryDirectory() as folder:
        roster = Roster()
        try:
            start(roster, names, smollm2(), Path(folder), dtype, asked)
            deadline = plan.deadline(asked, began, ready=time.monotonic(), budget=budget)
            rounds = plan.run(roster, asked, deadline, trace, names, tell=lambda line: print(line, flush=True))
        finally:
            roster.close()
    bfloat16 = dtype is torch.bfloat16
    report.figures(rounds, roster, names, asked, out, bfloat16=bfloat16)
    print(f"written to {out.write()}, after {(time.monotonic() - began) / 60:.1f} minutes")
    suffix = "-smoke" if asked is Size.SMOKE else ""
    report.write_runs(rounds, RESULTS / f"serving_runs{suffix}.json")
    pictures = {
        "serving-streams": report.streams_picture(rounds),
        "serving-ratios": report.ratios_picture(rounds, bfloat16=bfloat16),
    }
    for name, picture in pictures.items():
        (RESULTS / f"{name}{suffix}.svg").write_text(picture, encoding="utf-8")
        if asked is Size.FULL and len(names) == len(NAMES):
            (IMAGES / f"{name}.svg").write_text(picture, encoding="utf-8")


def start(roster: Roster, names: list[str], model: Path, folder: Path, dtype: torch.dtype, asked: Size) -> None:
    """Starts the contenders of these names: the torch engine alone, for its time counts, then two at a time."""
    logs = folder / "logs"
    logs.mkdir()
    kind = str(dtype).removeprefix("torch.")

    def start_one(name: str) -> None:
        if name.startswith("vllm") and not VLLM_PYTHON.is_file():
            roster.absent[name] = "make vllm brings its environment, which is not there"
            return
        roster.start(name, maker(name, model, logs, kind, eager=asked is Size.SMOKE))

    if "torch" in names:
        start_one("torch")
    # vLLM takes longest, so it begins first.
    rest = sorted((name for name in names if name != "torch"), key=lambda name: not name.startswith("vllm"))
    with ThreadPoolExecutor(STARTED_AT_ONCE) as pool:
        list(pool.map(start_one, rest))


def read_trace(folder: str | None) -> Trace | None:
    """The trace in a folder; None, and how to get it, where there is none."""
    path = Path(folder or ".") / TRACE_FILE
    if folder is None or not path.is_file():
        print(f"without a recorded trace: TRACES=FOLDER names where {TRACE_FILE} is (see benchmarks/README.md)")
        return None
    found = parse_trace(path.read_text(encoding="utf-8"))
    return found if isinstance(found, Trace) else None


if __name__ == "__main__":
    main()
