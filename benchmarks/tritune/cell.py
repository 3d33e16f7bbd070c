"""One thing to play, and the place where its numbers are kept: an interrupted run goes on where it was.

A cell's numbers are kept under the hash of the code they depend on. Comments and formatting do not count. The tuner's
own code counts for the tuner alone, so that a change of it leaves baselines and oracles as they are.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.figures import ROOT

Numbers = dict[str, float | list[float]]

TUNING: Final = ROOT / "operator" / "llmservice" / "tuning"
HERE: Final = Path(__file__).parent
PLAYED_BY_ALL: Final = ("contest", "baselines", "oracles", "questions", "played", "best_setting")
"""Modules of this folder on which every contestant's numbers depend, beside its workload's own."""
NOT_SIMULATED: Final = ("history.py", "series.py")
PLAYED_WITH: Final = {"aside": ("weeks",)}
"""Further modules of this folder that a module's numbers depend on."""
SHORTENED: Final = ("weeks", "aside", "ablation", "flapping", "checks")
"""Modules whose cells are shorter in a quick run; others have fewer of them."""
TUNERS: Final = ("tuner", "without")
"""Beginnings of the names of policies that run the tuner."""


@dataclass(frozen=True, order=True)
class Cell:
    """`policy` on `workload` with `seed`. `variant` tells cases of one workload apart."""

    seed: int
    workload: str
    variant: str
    policy: str

    @property
    def tuner(self) -> bool:
        """Whether the tuner's own code decides."""
        return self.policy.startswith(TUNERS)


@dataclass(frozen=True)
class Scope:
    """How much is played, from which recorded traces, and where numbers are kept."""

    quick: bool
    seeds: int
    traces: Path | None
    store: Path

    def few(self, most: int) -> int:
        """As many seeds as there are, `most` at most."""
        return min(self.seeds, most)


def path_of(scope: Scope, cell: Cell, module: str) -> Path:
    """Where the cell's numbers are kept. `module` plays its workload."""
    code = _hash(module, cell.tuner)
    data = hashlib.sha256(_data(scope.traces).encode())
    name = f"{cell.workload} {cell.variant} {cell.policy}".strip()
    slug = "".join(sign if sign.isalnum() else "-" for sign in name)
    length = "quick" if scope.quick and module in SHORTENED else "full"
    return scope.store / slug / f"{cell.seed}-{length}-{code}-{data.hexdigest()[:6]}.json"


def kept(scope: Scope, cell: Cell, module: str) -> Numbers | None:
    """The cell's numbers, where it was played."""
    try:
        found = json.loads(path_of(scope, cell, module).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def played(scope: Scope, cell: Cell, module: str, play: Callable[[], Numbers]) -> Numbers:
    """The cell's numbers; played now where they are not kept yet."""
    found = kept(scope, cell, module)
    if found is not None:
        return found
    found = play()
    path = path_of(scope, cell, module)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(found))
    part.replace(path)
    return found


@cache
def _hash(module: str, tuner: bool) -> str:
    files = [HERE / f"{name}.py" for name in (module, *PLAYED_WITH.get(module, ()), *PLAYED_BY_ALL)]
    files += [one for one in sorted((TUNING / "simulator").glob("*.py")) if one.name not in NOT_SIMULATED]
    files += sorted(TUNING.glob("*.py")) if tuner else [TUNING / "measured.py", TUNING / "settings.py"]
    return digest(path.read_text() for path in files if path.is_file())


def digest(sources: Iterable[str]) -> str:
    """A hash of what Python sources do: without comments, docstrings and formatting."""
    found = hashlib.sha256()
    for source in sources:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                words = [one for one in body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
                node.body = [one for one in body if one not in words] or [ast.Pass()]  # type: ignore[attr-defined]
        found.update(ast.dump(tree).encode())
    return found.hexdigest()[:10]


@cache
def _data(traces: Path | None) -> str:
    if traces is None or not traces.is_dir():
        return "stand-ins"
    files = sorted(one for one in traces.iterdir() if one.suffix in (".csv", ".jsonl"))
    return " ".join(f"{one.name}:{one.stat().st_size}" for one in files)
