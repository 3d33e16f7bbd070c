"""The cache that vLLM takes on a CPU, beside what the plan says it will.

vLLM is in an environment of its own (`make vllm`), so the engine is made by that interpreter: the driver's own start,
with a control group as in `capacity_engine`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.capacity_engine import EngineCase, planned
from benchmarks.figures import ROOT

PYTHON: Final = ROOT / ".venv-vllm" / "bin" / "python"
CASES: Final = (EngineCase(4608, 90, 256, 2048), EngineCase(6144, 80, 256, 2048))


@dataclass(frozen=True)
class Tokens:
    """One comparison, in tokens of the cache. `process` is what vLLM's process took before it loaded anything."""

    case: EngineCase
    planned: int
    taken: int
    process: int


def vllm_tokens() -> Iterator[Tokens]:
    """Every case, with a real engine each; none where there is no vLLM here."""
    from benchmarks.greedy import SMOLLM2
    from llmserving.weights import prepare

    if not PYTHON.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        weights = prepare(SMOLLM2, Path(folder))
        for case in CASES:
            # As a module: beside the script lies one named as one of the standard library.
            engine = ["-m", "benchmarks.capacity_vllm_engine", json.dumps(asdict(case)), str(weights)]
            done = subprocess.run([str(PYTHON), *engine], capture_output=True, text=True, check=True, cwd=ROOT)
            taken, process = json.loads(done.stdout.splitlines()[-1])
            yield Tokens(case, planned(case, "vllm").kv_tokens, taken, process)
