"""A line chart as SVG, with bands; no library is needed for so little. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 120, 40, 48
COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#6f4e7c")


@dataclass(frozen=True)
class Line:
    """Points `(x, values of the rounds)`: the line goes through their medians, the band from least to most."""

    name: str
    points: tuple[tuple[float, Sequence[float]], ...]


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
    for line, colour in zip(lines, COLOURS, strict=False):
        band = [at(x, max(v)) for x, v in line.points] + [at(x, min(v)) for x, v in reversed(line.points)]
        middle = [at(x, median(v)) for x, v in line.points]
        parts.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.2"/>')
        parts.append(f'<polyline points="{" ".join(middle)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        end_x, end_y = map(float, middle[-1].split(","))
        parts.append(_text(end_x + 8, end_y + 4, line.name, "start", fill=colour))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n'
    )


def _step(highest: float) -> float:
    """The distance of grid lines: 1, 2 or 5 times a power of ten, at most six of them."""
    power = 10.0 ** math.floor(math.log10(highest / 6)) if highest > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if highest / (factor * power) <= 6)


def _text(x: float, y: float, text: str, anchor: str, size: int = 12, fill: str = "#333") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">{escape(text)}</text>'
    )
