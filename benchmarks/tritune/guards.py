"""The ablation's table."""

from __future__ import annotations

from benchmarks.figures import Figures
from benchmarks.tritune.ablation import GUARDS, ablate
from benchmarks.tritune.parts import Scope, show


def guards(scope: Scope, figures: Figures) -> None:
    """Every guard taken out once."""
    length = 0.75 if scope.quick else 3.0
    names = list(GUARDS)[:: 2 if scope.quick else 1]
    found = scope.each(ablate, [(name, length, 0) for name in names])
    whole = found[0].played
    show(
        f"Ablation: {length:g} days, kind B, lead 180 s",
        ("", "hours, relative", "violated minutes %", "replica changes a day", "reversals"),
        [
            (
                one.name,
                one.played.hours / whole.hours,
                100 * one.played.violated,
                one.played.changes_a_day,
                one.played.reversals,
            )
            for one in found
        ],
    )
    worse = sum(
        (one.played.violated, one.played.reversals, one.played.changes_a_day, one.played.hours)
        != (whole.violated, whole.reversals, whole.changes_a_day, whole.hours)
        for one in found[1:]
    )
    figures.add("ablation_guards_that_matter", worse, "guards")
