"""A drawing of a run, as SVG by hand: load, replicas, p99 over time. No plotting library for three lines."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from llmservice.tuning.settings import Objective
from llmservice.tuning.simulator.run import Run

WIDTH, PANEL, LEFT, TOP, GAP = 860, 130, 70, 34, 34
INK, GRID = "#334155", "#e2e8f0"
COLORS = ("#2563eb", "#dc2626", "#16a34a", "#9333ea", "#f59e0b")

Line = tuple[str, Sequence[float], Sequence[float]]


def draw(title: str, panels: Sequence[tuple[str, Sequence[Line], float | None]], path: Path) -> None:
    """One panel below the other, each (label, lines, a level to mark). Times are in hours."""
    height = TOP + len(panels) * (PANEL + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14" fill="{INK}">{escape(title)}</text>',
    ]
    last = max(max(times) for _, lines, _ in panels for _, times, _ in lines)
    for number, (label, lines, level) in enumerate(panels):
        parts += _panel(TOP + number * (PANEL + GAP), label, lines, level, last)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _panel(top: int, label: str, lines: Sequence[Line], level: float | None, last: float) -> list[str]:
    highest = 1.08 * max([level or 0.0, *(float(np.nanmax(values)) for _, _, values in lines)])
    highest = highest or 1.0
    right = WIDTH - 20

    def x(time: float) -> float:
        return LEFT + (right - LEFT) * time / last

    def y(value: float) -> float:
        return top + PANEL * (1 - min(value, highest) / highest)

    parts = [f'<text x="{LEFT}" y="{top - 5}" fill="{INK}">{escape(label)}</text>']
    for share in (0.0, 0.5, 1.0):
        value = share * highest
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{right}" stroke="{GRID}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="{INK}">{value:.3g}</text>')
    parts += [
        f'<text x="{x(hour):.1f}" y="{top + PANEL + 13}" text-anchor="middle" fill="{INK}">{hour:.1f} h</text>'
        for hour in np.linspace(0, last, 7)
    ]
    if level is not None:
        parts.append(f'<path d="M{LEFT} {y(level):.1f}H{right}" stroke="#dc2626" stroke-dasharray="5 4"/>')
    for place, (name, times, values) in enumerate(lines):
        color = COLORS[place % len(COLORS)]
        points = " ".join(
            f"{x(time):.1f},{y(value):.1f}" for time, value in zip(times, values, strict=True) if np.isfinite(value)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.4"/>')
        end = right - 130 * (len(lines) - place - 1)
        parts.append(f'<text x="{end}" y="{top - 5}" text-anchor="end" fill="{color}">{escape(name)}</text>')
    return parts


def draw_run(title: str, run: Run, objectives: Sequence[Objective], path: Path) -> None:
    """Load, replicas and the first objective's p99 of one recorded run."""
    hours = [window.end / 3600 for window in run.windows]
    panels: list[tuple[str, Sequence[Line], float | None]] = [
        ("requests/s", [("arrivals", hours, [window.arrivals for window in run.windows])], None),
        (
            "replicas",
            [
                ("asked for", hours, [float(window.knobs.replicas) for window in run.windows]),
                ("serving", hours, [float(window.ready) for window in run.windows]),
            ],
            None,
        ),
    ]
    for place, objective in enumerate(objectives):
        values = [min(1000 * window.p99[place], 3000 * objective.seconds) for window in run.windows]
        panels.append(
            (f"{objective.words}; cut at three times that (ms)", [("p99", hours, values)], 1000 * objective.seconds)
        )
    draw(title, panels, path)
