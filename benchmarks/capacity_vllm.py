"""The cache that vLLM takes on a CPU, beside what the plan says it will.

vLLM is in an environment of its own (`make vllm`), so the engine is made by that interpreter: the driver's own start,
with a control group as in `capacity_engine`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.capacity_engine import EngineCase, planned
from benchmarks.capacity_served import Served
from benchmarks.figures import ROOT

PYTHON: Final = ROOT / ".venv-vllm" / "bin" / "python"
CASES: Final = (EngineCase(4608, 90, 256, 2048), EngineCase(6144, 80, 256, 2048))
SERVED: Final = EngineCase(4096, 90, 256, 1200)
"""Planned with sequences of 300 tokens, a fourth of the longest: three blocks of 128."""


@dataclass(frozen=True)
class Tokens:
    """One comparison, in tokens of the cache. `process` is what vLLM's process took before it loaded anything."""

    case: EngineCase
    planned: int
    taken: int
    process: int


def vllm_tokens() -> Iterator[Tokens]:
    """Every case, with a real engine each; none where there is no vLLM here."""
    for case in CASES:
        for taken, process in _engines(case):
            yield Tokens(case, planned(case, "vllm").kv_tokens, taken, process)


def vllm_served() -> Iterator[Served]:
    """The sequences that the plan promises, served at once by a real engine; none where there is no vLLM here."""
    plan = planned(SERVED, "vllm")
    promised, length = plan.fitting_sequences, plan.planned_length
    for at_once, answered, preempted in _engines(SERVED, str(promised), str(length)):
        yield Served(replace(SERVED, length=length), promised, at_once, answered, preempted)


def _engines(case: EngineCase, *arguments: str) -> Iterator[list[int]]:
    """What the engine of a case printed, if there is one."""
    from benchmarks.greedy import SMOLLM2
    from llmserving.weights import prepare

    if not PYTHON.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        weights = prepare(SMOLLM2, Path(folder))
        # As a module: beside the script lies one named as one of the standard library.
        command = [str(PYTHON), "-m", "benchmarks.capacity_vllm_engine", json.dumps(asdict(case)), str(weights)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True, cwd=ROOT)
        yield json.loads(done.stdout.splitlines()[-1])
