"""The cache that the torch engine takes on a CPU, beside what the plan says it will.

Each engine is made in a process of its own (`python -m benchmarks.capacity_engine CASE`) and reads from a control group
how much memory is free. That group is a folder of files here: a limit, and in use what this process really takes at
that moment, weights included, and what Triton and the gates take beside it. So nothing else on the host disturbs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.control_group import MIB, control_group
from benchmarks.figures import ROOT
from llmservice.api.plan import CapacityPlan

if TYPE_CHECKING:
    from llmtorch.engine import TorchEngine

REPO: Final = "HuggingFaceTB/SmolLM2-135M-Instruct"


@dataclass(frozen=True)
class EngineCase:
    """What an engine is given: `limit` in MiB, the share of it in percent, sequences and tokens of the longest."""

    limit: int
    percent: int
    sequences: int
    length: int


CASES: Final = (
    EngineCase(8192, 90, 8, 2048),  # bounded by the sequences
    EngineCase(4096, 90, 4, 8192),
    EngineCase(3072, 90, 64, 8192),  # bounded by the memory
    EngineCase(4096, 80, 64, 8192),
    EngineCase(6144, 90, 64, 8192),
)


@dataclass(frozen=True)
class Blocks:
    """One comparison, in blocks of the cache."""

    case: EngineCase
    planned: int
    taken: int


def engine_blocks() -> Iterator[Blocks]:
    """Every case, with a real engine each."""
    from benchmarks.greedy import SMOLLM2
    from llmserving.weights import prepare

    with tempfile.TemporaryDirectory() as folder:
        weights = prepare(SMOLLM2, Path(folder))
        for case in CASES:
            command = [sys.executable, "-m", "benchmarks.capacity_engine", json.dumps(asdict(case)), str(weights)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=dict(os.environ))
            yield Blocks(case, planned(case).kv_blocks, int(done.stdout))


def planned(case: EngineCase, backend: str = "torch") -> CapacityPlan:
    """What the plan says of a case."""
    from benchmarks.capacity_cases import service
    from llmservice.api.fleet import FleetDefaults
    from llmservice.capacity.plan import plan

    fleet = FleetDefaults.model_validate({"pools": {"cpu": {"memory": f"{case.limit}Mi"}}})
    asked = service(
        REPO,
        "cpu",
        model={"source": {"huggingFace": {"repo": REPO}}, "maxLength": case.length, "dtype": "float32"},
        engine={"backend": backend},
        batching={"maxSequences": case.sequences},
        kvCache={"memoryPercent": case.percent},
    )
    return plan(asked, fleet)


def made_engine(case: EngineCase, weights: Path, max_prefill_tokens: int | None = None) -> TorchEngine:
    """An engine that is really made here, within the limit. `max_prefill_tokens`: see its options."""
    from llmserving.host_memory import host_memory
    from llmtorch import kv_cache
    from llmtorch.engine import TorchEngine
    from llmtorch.options import EngineOptions

    with tempfile.TemporaryDirectory() as folder:

        def limited() -> tuple[int, int]:
            return host_memory(*control_group(Path(folder), case.limit * MIB))

        vars(kv_cache)["host_memory"] = limited
        return TorchEngine(
            EngineOptions(
                weights,
                max_sequences=case.sequences,
                max_length=case.length,
                dtype="float32",
                memory_percent=case.percent,
                device="cpu",
                max_prefill_tokens=max_prefill_tokens,
            )
        )


def take(case: EngineCase, weights: Path) -> int:
    """Blocks of the cache that such an engine has."""
    return made_engine(case, weights)._blocks.num_blocks  # noqa: SLF001 - what it took is nobody else's business


if __name__ == "__main__":
    print(take(EngineCase(**json.loads(sys.argv[1])), Path(sys.argv[2])))
