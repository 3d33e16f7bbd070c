"""The table: figures with goals and intervals, and every load with everybody side by side, as Markdown and JSON."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.figures import ROOT, machine, quick
from benchmarks.tritune.ablation import LOADS
from benchmarks.tritune.cell import Cell
from benchmarks.tritune.figures_wanted import Picked, Results, Wanted, against, wanted
from benchmarks.tritune.policies import POLICIES
from benchmarks.tritune.statistics import interval

TITLES: Final = {
    "W2": "Steps: half, twice, half the load; kind A, cold start 180 s",
    "W3": "Bursts of 5 s with four times the rate; kind A, cold start 180 s",
    "W4": "Conversation, Azure 2023; kind B, judged on the second half",
    "W5": "Code completion; kind B, judged on the second half",
    "W6": "Long context; kind B, judged on the second half",
    "W7": "Fourteen days; kind B, judged on the second week",
    "W7 aside": "Fourteen days that nobody tuned for; kind B, judged on the second week",
}
COLUMNS: Final = (
    "",
    "seeds",
    "hours ÷ O2",
    "met %",
    "violated minutes %",
    "replica changes/day",
    "reversals",
    "reloads/day",
    "dropped",
)
ABLATED: Final = {
    "violated": "violated minutes %",
    "changes_a_day": "replica changes/day",
    "reversals": "reversals",
    "reloads_a_day": "reloads/day",
    "in_place_a_day": "changes of instances/day",
}
DOCS: Final = ROOT / "docs" / "tritune.md"
BEGIN, END = "<!-- begin: written by `make bench-tritune` -->", "<!-- end -->"


def write(results: Results, planned: Sequence[Cell], folder: Path, *, into_docs: bool) -> list[Wanted]:
    """Writes `tritune.json` and `tritune.md` to `folder`, and, where asked, the latter's text into the docs page."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = wanted(results)
    text = f"The tuner is that of commit {_commit()}. {markdown(results, planned, figures)}"
    (folder / "tritune.md").write_text(f"# TRITUNE\n\n{text}")
    content = {
        "benchmark": "tritune",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "quick": quick(),
        "machine": machine(),
        "cells": len(planned),
        "played": sum(cell in results for cell in planned),
        "figures": [figure_json(one) for one in figures],
        "loads": [row_json(results, load, policy) for load, policy in _rows(results)],
    }
    (folder / "tritune.json").write_text(json.dumps(content, indent=2) + "\n")
    if into_docs:
        DOCS.write_text(between(DOCS.read_text(), text))
    return figures


def _commit() -> str:
    """The last one that changed what is played or how."""
    paths = ("operator/llmservice/tuning", "benchmarks/tritune")
    told = subprocess.run(
        ["git", "log", "-1", "--format=%h", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "unknown"


def between(page: str, text: str) -> str:
    """The page with `text` between its marks. Raises ValueError for a page without them."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN!r} or {END!r}")
    return f"{head}{BEGIN}\n\n{text.strip()}\n\n{END}{tail}"


def markdown(results: Results, planned: Sequence[Cell], figures: Sequence[Wanted]) -> str:
    """All tables."""
    parts = ["Means over seeds with 95 % bootstrap intervals.", played(results, planned), _figures(figures)]
    parts += [*(_load(results, load) for load in _loads(results)), _faults(results), _ablation(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def played(results: Results, planned: Sequence[Cell]) -> str:
    """How many of the planned runs the tables are made of, by workload, and what they are without."""
    done = [cell for cell in planned if cell in results]
    lines = [f"{len(done)} of {len(planned)} runs were played."]
    short = {name: (_of(done, name), _of(planned, name)) for name in dict.fromkeys(cell.workload for cell in planned)}
    some = [f"{name} {count} of {whole}" for name, (count, whole) in short.items() if 0 < count < whole]
    none = [name for name, (count, _) in short.items() if count == 0]
    seen = {(cell.workload, cell.variant, cell.policy) for cell in done}
    missing: dict[str, dict[str, None]] = {}
    for cell in planned:
        if short[cell.workload][0] and (cell.workload, cell.variant, cell.policy) not in seen:
            missing.setdefault(f"{cell.workload} {cell.variant}".strip(), {})[cell.policy] = None
    lines += [f"In part: {', '.join(some)}."] if some else []
    lines += [f"Not at all: {', '.join(none)}."] if none else []
    lines += [f"{load} without {', '.join(policies)}." for load, policies in missing.items()]
    return " ".join(lines)


def _of(cells: Sequence[Cell], workload: str) -> int:
    return sum(cell.workload == workload for cell in cells)


def goals(figures: Sequence[Wanted]) -> str:
    """How many goals are met, and which are not."""
    judged = [one for one in figures if one.ok is not None]
    missed = [f"`{one.name}`" for one in judged if not one.ok]
    told = f"{len(judged) - len(missed)} of {len(judged)} goals are met."
    return f"{told} Missed: {', '.join(missed)}." if missed else told


def _figures(figures: Sequence[Wanted]) -> str:
    rows = []
    for one in figures:
        sign = "≤" if one.better == "lower" else "≥"
        goal = "" if one.goal is None else f"{sign} {one.goal:g}"
        verdict = "" if one.ok is None else "ok" if one.ok else "**short**"
        how = "" if one.reduced == "mean" else one.reduced
        rows.append((f"`{one.name}`", one.words, one.unit, how, goal, verdict, one.seeds or ""))
    columns = ("figure", "value", "unit", "of all", "goal", "", "seeds")
    return f"## Figures\n\n{goals(figures)}\n\n{table(columns, rows)}"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; its first column to the left, the others to the right."""
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)])


def _loads(results: Results) -> list[tuple[str, str]]:
    return sorted({(cell.workload, cell.variant) for cell in results if cell.workload in TITLES})


def _rows(results: Results) -> Iterable[tuple[tuple[str, str], str]]:
    present = {(cell.workload, cell.variant, cell.policy) for cell in results}
    for load in _loads(results):
        yield from ((load, policy) for policy in POLICIES if (*load, policy) in present)


def _load(results: Results, load: tuple[str, str]) -> str:
    rows = []
    for found, policy in _rows(results):
        if found == load:
            rows.append(_row(results, load, policy))
    title = f"{load[0]} {load[1]}".strip()
    return f"## {title}: {TITLES[load[0]]}\n\n" + table(COLUMNS, rows)


def _row(results: Results, load: tuple[str, str], policy: str) -> tuple[str, ...]:
    picked = Picked(results, *load, policy)
    ratios = [ratio for cell in picked.cells if (ratio := against(results, cell, ("O2 lead-time oracle",)))]

    def told(name: str) -> str:
        values = picked(name)
        return _told(values)

    name = policy
    targets = picked("target")
    if targets:
        name = f"{policy} to {targets[0]:g}"
    columns = ("met", "violated", "changes_a_day", "reversals", "reloads_a_day", "dropped")
    return (name, str(picked.seeds), _told(ratios), *(told(column) for column in columns))


def _told(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1 or max(values) == min(values):
        return f"{values[0]:.4g}"
    found = interval(values)
    return f"{found.mean:.4g} [{found.low:.4g}, {found.high:.4g}]"


def _faults(results: Results) -> str:
    variants = list(dict.fromkeys(cell.variant for cell in sorted(results) if cell.workload == "W8"))
    if not variants:
        return ""
    rows = []
    for variant in variants:
        cells = Picked(results, "W8", variant)
        names = ("scale_downs", "reloads", "windows_to_recover", "unavoidable", "dropped")
        worst = [int(max(cells(name), default=0)) for name in names]
        rows.append((variant, cells.seeds, *worst, f"{min(cells('met')):.4g}"))
    columns = (
        "fault, kind",
        "seeds",
        "scale-downs",
        "reloads",
        "windows to recover",
        "beyond any's help",
        "dropped",
        "met %",
    )
    return "## W8: faults; the worst seed\n\n" + table(columns, rows)


def _ablation(results: Results) -> str:
    rows: list[Sequence[object]] = []
    names = list(dict.fromkeys(cell.policy for cell in sorted(results) if cell.workload == "ablation"))
    for load in LOADS:
        whole = Picked(results, "ablation", load)("hours")
        for policy in sorted(names, key=lambda name: name != "tuner"):
            cells = Picked(results, "ablation", load, policy)
            ratios = [one / other for one, other in zip(cells("hours"), whole, strict=False) if other]
            told = [_told(cells(column)) for column in ABLATED]
            rows.append(("all guards" if policy == "tuner" else policy, load, cells.seeds, _told(ratios), *told))
    columns = ("", "load", "seeds", "hours, relative", *ABLATED.values())
    return "## What each guard is for\n\n" + table(columns, rows) if set(names) - {"tuner"} else ""


def figure_json(one: Wanted) -> dict[str, object]:
    """One figure."""
    spread = interval(one.values)
    return {
        "name": one.name,
        "value": one.value,
        "low": spread.low if one.reduced == "mean" else None,
        "high": spread.high if one.reduced == "mean" else None,
        "unit": one.unit,
        "reduced": one.reduced,
        "goal": one.goal,
        "better": one.better,
        "ok": one.ok,
        "seeds": one.seeds,
    }


def row_json(results: Results, load: tuple[str, str], policy: str) -> dict[str, object]:
    """One contestant on one load: means by name."""
    picked = Picked(results, *load, policy)
    names: dict[str, float] = {}
    for numbers in picked.cells.values():
        names |= {name: 0.0 for name, value in numbers.items() if not isinstance(value, list)}
    means = {name: interval(picked(name)) for name in names if picked(name)}
    found: dict[str, object] = {"workload": load[0], "variant": load[1], "policy": policy, "seeds": picked.seeds}
    return found | {name: [one.mean, one.low, one.high] for name, one in means.items()}
