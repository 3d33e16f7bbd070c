"""Figures of a benchmark: one line each for people, one JSON file for those who compare."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"

Better = Literal["lower", "higher"]


def quick() -> bool:
    """Whether `QUICK=1` asks for at most ten minutes."""
    return os.environ.get("QUICK", "") not in ("", "0")


@dataclass(frozen=True)
class Figure:
    """One measured value. `ok` is None where there is no goal."""

    name: str
    value: float
    unit: str
    goal: float | None
    better: Better
    ok: bool | None

    def line(self) -> str:
        """`FIGURE <name> <value> <unit> goal <goal> ok|short`."""
        goal = "-" if self.goal is None else f"{self.goal:g}"
        verdict = "-" if self.ok is None else "ok" if self.ok else "short"
        return f"FIGURE {self.name} {self.value:.6g} {self.unit} goal {goal} {verdict}"


class Figures:
    """The figures of the benchmark `name`, written to `benchmarks/results/<name>.json` by `write`."""

    def __init__(self, name: str, results: Path = RESULTS) -> None:
        self._name = name
        self._results = results
        self.figures: list[Figure] = []

    def add(self, name: str, value: float, unit: str, goal: float | None = None, better: Better = "lower") -> Figure:
        """Adds one figure and prints its line. A value equal to the goal is ok. Units and names hold no spaces."""
        ok = None if goal is None else value <= goal if better == "lower" else value >= goal
        figure = Figure(name.replace(" ", "_"), float(value), unit.replace(" ", "_") or "-", goal, better, ok)
        self.figures.append(figure)
        print(figure.line(), flush=True)
        return figure

    def write(self) -> Path:
        """Writes the JSON file and returns its path."""
        self._results.mkdir(parents=True, exist_ok=True)
        path = self._results / f"{self._name}.json"
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
