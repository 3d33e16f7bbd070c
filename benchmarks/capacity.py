"""The capacity plan against NVIDIA's memory model, the torch engine's own allocation, and the clock.

`python -m benchmarks.capacity`. The reference is installed into an environment of its own the first time (0.5 GB).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.capacity_cases import FLEET, Compared, combinations, service, write_configs
from benchmarks.capacity_engine import engine_blocks
from benchmarks.capacity_peers import side_by_side
from benchmarks.capacity_served import served
from benchmarks.capacity_vllm import vllm_served, vllm_tokens
from benchmarks.figures import ROOT, Figures
from llmservice.capacity.memory import BLOCK_TOKENS
from llmservice.capacity.plan import plan
from llmservice.capacity.pools import with_built_in_pools

REFERENCE: Final = "aiconfigurator-core==0.12.0"
ENVIRONMENT: Final = ROOT / ".venv" / "capacity-reference"
LEAST_TOKENS: Final = 4096
"""Below one sequence of this length a combination is one that nobody would run, and a rounding decides the ratio."""


def reference(cases: Sequence[Compared]) -> list[dict[str, Any]]:
    """What the reference says of each case. Raises CalledProcessError where it cannot be installed or run."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "installed").exists():
        print(f"» installing {REFERENCE} into {ENVIRONMENT.relative_to(ROOT)}", flush=True)
        uv = str(ROOT / ".venv" / "bin" / "uv")
        subprocess.run([uv, "venv", "-q", "--clear", str(ENVIRONMENT)], check=True)
        subprocess.run([uv, "pip", "install", "-q", "-p", str(ENVIRONMENT), REFERENCE], check=True)
        (ENVIRONMENT / "installed").touch()
    with tempfile.TemporaryDirectory() as folder:
        write_configs(Path(folder))
        asked = json.dumps([case.asked(Path(folder)) for case in cases])
        script = str(Path(__file__).with_name("capacity_reference.py"))
        # Isolated: beside the script lies a module named as one of the standard library.
        done = subprocess.run([python, "-I", script], input=asked, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def against_reference(figures: Figures) -> None:
    """Weights and KV tokens of one accelerator, where both find room for a sequence."""
    cases = list(combinations())
    weights, tokens, disagreed, failed = [], [], 0, 0
    print(f"{'model':34} {'gpu':10} tp {'weights':5} {'kv':9} {'weights GiB':>16} {'KV tokens':>21}   off")
    for case, told in zip(cases, reference(cases), strict=True):
        found = case.planned()
        ours = found.kv_tokens
        theirs = told.get("kv_tokens", 0)
        if "no KV budget" not in told.get("error", "no KV budget") or found.memory is None:
            failed += 1
            print(f"{case.repo:34} {case.gpu:10} {case.tensor:2} not modelled: {told.get('error', found.reason)[:80]}")
            continue
        if min(ours, theirs) < LEAST_TOKENS:
            disagreed += max(ours, theirs) >= 2 * LEAST_TOKENS
            continue
        off_weights = found.memory.weights / told["weights_bytes"] - 1
        off_tokens = ours / theirs - 1
        weights.append(abs(off_weights))
        tokens.append(abs(off_tokens))
        print(
            f"{case.repo:34} {case.gpu:10} {case.tensor:2} {case.weights or '-':5} {case.kv:9} "
            f"{found.memory.weights / 2**30:7.2f} {told['weights_bytes'] / 2**30:7.2f} {ours:>10,} {theirs:>10,} "
            f"{off_weights:+6.2%} {off_tokens:+6.1%}"
        )
    figures.add("plan_combinations", len(tokens), "combinations", 30, "higher")
    figures.add("plan_combinations_not_modelled", failed, "combinations", 0)
    figures.add("plan_fits_disagreed", disagreed, "combinations", 0)
    figures.add("plan_weights_worst", 100 * max(weights), "%", 2)
    figures.add("plan_kv_tokens_median", 100 * median(tokens), "%", 8)
    figures.add("plan_kv_tokens_worst", 100 * max(tokens), "%", 15)


def against_engine(figures: Figures) -> None:
    """Blocks of the cache that the torch engine takes, on this host's CPU."""
    worst = 0.0
    for found in engine_blocks():
        off = found.planned / found.taken - 1
        worst = max(worst, abs(off))
        print(
            f"torch engine, {found.case.limit} MiB, {found.case.percent} %, {found.case.sequences} sequences of "
            f"{found.case.length}: planned {found.planned} blocks of {BLOCK_TOKENS} tokens, "
            f"it took {found.taken} ({off:+.2%})"
        )
    figures.add("plan_engine_blocks_worst", 100 * worst, "%", 1)


def against_vllm(figures: Figures) -> None:
    """Tokens of the cache that vLLM takes on this host's CPU."""
    worst = None
    for found in vllm_tokens():
        off = found.planned / found.taken - 1
        worst = max(worst or 0.0, abs(off))
        print(
            f"vLLM, {found.case.limit} MiB, {found.case.percent} %: planned {found.planned:,} tokens, it took "
            f"{found.taken:,} ({off:+.2%}); its process had {found.process / 2**20:.0f} MiB before"
        )
    if worst is None:
        figures.missing("plan_vllm_tokens_worst", "%", "no vLLM here: make vllm", 1)
    else:
        figures.add("plan_vllm_tokens_worst", 100 * worst, "%", 1)


def against_requests(figures: Figures) -> None:
    """Sequences that the plan promises, served at once by the engines within their memory."""
    kept: list[bool] = []
    for engine, found in (*(("torch engine", one) for one in served()), *(("vLLM", one) for one in vllm_served())):
        kept.append(found.kept)
        print(
            f"{engine}, {found.case.limit} MiB, {found.case.percent} %: {found.promised} sequences of "
            f"{found.case.length} tokens promised; {found.at_once} were inside at once, {found.answered} answered, "
            f"{found.preempted} preemptions"
        )
    figures.add("plan_promises", len(kept), "promises")
    figures.add("plan_promises_broken", len(kept) - sum(kept), "promises", 0)


def timed(figures: Figures) -> None:
    """How long a plan takes, with every A100 pool to choose from."""
    fleet = with_built_in_pools(FLEET)
    asked = [
        service(case.repo, case.gpu, engine={"backend": "vllm", "parallelism": {"tensor": case.tensor}})
        for case in combinations()
    ]
    single = []
    for item in asked[:50]:
        began = time.perf_counter()
        plan(item, fleet)
        single.append(time.perf_counter() - began)
    figures.add("plan_one_service", 1000 * median(single), "ms", 50)
    figures.add("plan_one_service_worst", 1000 * max(single), "ms", 50)
    began = time.perf_counter()
    for index in range(1000):
        plan(asked[index % len(asked)], fleet)
    figures.add("plan_1000_services", time.perf_counter() - began, "s", 5)


def main() -> int:
    """Compares and prints."""
    figures = Figures("capacity")
    against_reference(figures)
    against_engine(figures)
    against_vllm(figures)
    against_requests(figures)
    timed(figures)
    print(side_by_side())
    figures.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
