"""A line chart with bands and a bar chart with goals, as SVG; no library is needed for so little. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 120, 40, 48
ROW, NAMES = 26, 320
OK, SHORT = "#3a7d44", "#d1495b"
COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#6f4e7c")


@dataclass(frozen=True)
class Line:
    """Points `(x, values of the rounds)`: the line goes through their medians, the band from least to most."""

    name: str
    points: tuple[tuple[float, Sequence[float]], ...]


@dataclass(frozen=True)
class Bar:
    """`values` of the passes: the bar goes to their median, a line from least to most."""

    name: str
    values: Sequence[float]
    goal: float
    better: Literal["lower", "higher"]

    @property
    def colour(self) -> str:
        """Whether the goal is met."""
        middle = median(self.values)
        return OK if (middle <= self.goal if self.better == "lower" else middle >= self.goal) else SHORT


def bars(title: str, found: Sequence[Bar]) -> str:
    """The picture, a row for each; each row has a scale of its own, on which its goal is at the same place."""
    height = TOP + ROW * max(1, len(found)) + 36
    goal_x = NAMES + (WIDTH - NAMES - 60) / 2

    def across(bar: Bar, value: float) -> float:
        return min(WIDTH - 60.0, NAMES + (goal_x - NAMES) * value / bar.goal)

    parts = [_text(12, 22, title, "start", 15)]
    for row, bar in enumerate(found):
        y, middle = TOP + ROW * row, median(bar.values)
        low, high = (across(bar, value) for value in (min(bar.values), max(bar.values)))
        sign = "≤" if bar.better == "lower" else "≥"
        parts += [
            _text(NAMES - 8, y + 15, bar.name, "end", 11),
            f'<rect x="{NAMES}" y="{y + 4}" width="{across(bar, middle) - NAMES:.1f}" height="{ROW - 10}" '
            f'fill="{bar.colour}" opacity="0.7"/>',
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 12}" y2="{y + 12}" stroke="#333"/>',
            _text(WIDTH - 54, y + 15, f"{middle:.2f} ({sign} {bar.goal:g})", "start", 10),
        ]
    bottom = TOP + ROW * len(found)
    parts.append(f'<line x1="{goal_x:.1f}" x2="{goal_x:.1f}" y1="{TOP}" y2="{bottom}" stroke="#333" stroke-width="2"/>')
    parts.append(_text(goal_x, bottom + 16, "goal", "middle"))
    return _svg(WIDTH + 40, height, parts)


def chart(title: str, x_label: str, lines: Sequence[Line]) -> str:
    """The picture. x is on a scale of doublings, y begins at 0."""
    xs = sorted({x for line in lines for x, _ in line.points})
    highest = max((value for line in lines for _, values in line.points for value in values), default=1.0)
    step = _step(highest)
    top = step * math.ceil(highest / step)

    def at(x: float, y: float) -> str:
        low, high = math.log2(xs[0]), math.log2(xs[-1])
        across = LEFT + (WIDTH - LEFT - RIGHT) * ((math.log2(x) - low) / ((high - low) or 1.0))
        return f"{across:.1f},{HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top:.1f}"

    parts = [_text(LEFT, 22, title, "start", 15)]
    for index in range(round(top / step) + 1):
        y = at(xs[0], index * step).split(",")[1] if xs else "0"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, float(y) + 4, f"{index * step:g}", "end"))
    parts += [_text(float(at(x, 0).split(",")[0]), HEIGHT - BOTTOM + 18, f"{x:g}", "middle") for x in xs]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, "middle"))
    ends: list[tuple[float, float, str, str]] = []
    for line, colour in zip(lines, COLOURS, strict=False):
        band = [at(x, max(v)) for x, v in line.points] + [at(x, min(v)) for x, v in reversed(line.points)]
        middle = [at(x, median(v)) for x, v in line.points]
        parts.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.2"/>')
        parts.append(f'<polyline points="{" ".join(middle)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        end_x, end_y = map(float, middle[-1].split(","))
        ends.append((end_y, end_x, line.name, colour))
    lowest = 0.0
    for end_y, end_x, name, colour in sorted(ends):  # names of lines that end close together stand below each other
        lowest = max(end_y, lowest + 14)
        parts.append(_text(end_x + 8, lowest + 4, name, "start", fill=colour))
    return _svg(WIDTH, HEIGHT, parts)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def _step(highest: float) -> float:
    """The distance of grid lines: 1, 2 or 5 times a power of ten, at most six of them."""
    power = 10.0 ** math.floor(math.log10(highest / 6)) if highest > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if highest / (factor * power) <= 6)


def _text(x: float, y: float, text: str, anchor: str, size: int = 12, fill: str = "#333") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">{escape(text)}</text>'
    )
