"""Figures of a benchmark: one line each for people, one JSON file for those who compare."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"

Better = Literal["lower", "higher"]


class Size(StrEnum):
    """How long a benchmark may take: all of it, at most ten minutes, or just once through every part."""

    FULL = "full"
    QUICK = "quick"
    SMOKE = "smoke"


def size() -> Size:
    """What `SMOKE=1` or `QUICK=1` ask for. Figures of a smoke run say that it works, and nothing of speed."""
    return next((one for one in (Size.SMOKE, Size.QUICK) if os.environ.get(one.name, "") not in ("", "0")), Size.FULL)


def quick() -> bool:
    """Whether at most ten minutes are asked for."""
    return size() is not Size.FULL


@dataclass(frozen=True)
class Figure:
    """One measured value. `ok` is None where there is no goal. What could not be measured has no value but a `why`."""

    name: str
    value: float | None
    unit: str
    goal: float | None
    better: Better
    ok: bool | None
    why: str = ""

    def line(self) -> str:
        """`FIGURE <name> <value> <unit> goal <goal> ok|short`, and why where there is no value."""
        value = "-" if self.value is None else f"{self.value:.6g}"
        goal = "-" if self.goal is None else f"{self.goal:g}"
        verdict = "-" if self.ok is None else "ok" if self.ok else "short"
        return f"FIGURE {self.name} {value} {self.unit} goal {goal} {verdict}" + (f" ({self.why})" if self.why else "")


class Figures:
    """The figures of the benchmark `name`, written to `benchmarks/results/<name>.json` by `write`."""

    def __init__(self, name: str, results: Path = RESULTS) -> None:
        self._name = name
        self._results = results
        self.figures: list[Figure] = []

    def add(self, name: str, value: float, unit: str, goal: float | None = None, better: Better = "lower") -> Figure:
        """Adds one figure and prints its line. A value equal to the goal is ok. Units and names hold no spaces."""
        ok = None if goal is None else value <= goal if better == "lower" else value >= goal
        return self._tell(Figure(name.replace(" ", "_"), float(value), unit.replace(" ", "_") or "-", goal, better, ok))

    def missing(self, name: str, unit: str, why: str, goal: float | None = None, better: Better = "lower") -> Figure:
        """Adds a figure that could not be measured: `short`, and `why` in one line."""
        return self._tell(Figure(name, None, unit, goal, better, ok=False, why=" ".join(why.split())))

    def _tell(self, figure: Figure) -> Figure:
        self.figures.append(figure)
        print(figure.line(), flush=True)
        return figure

    def write(self) -> Path:
        """Writes the JSON file and returns its path. A smoke run has one of its own."""
        self._results.mkdir(parents=True, exist_ok=True)
        path = self._results / f"{self._name}{'-smoke' if size() is Size.SMOKE else ''}.json"
        content = {
            "benchmark": self._name,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "quick": quick(),
            "machine": machine(),
            "figures": [asdict(figure) for figure in self.figures],
        }
        path.write_text(json.dumps(content, indent=2) + "\n")
        return path


def machine() -> dict[str, str | int | float]:
    """What the figures were measured on."""
    return {
        "cpu": _first_field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "load_average": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _first_field(path: Path, field: str) -> str:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), "")


def _commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"
