"""W7's table and figures: the tuner, the oracles, and everything else on the same days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Figures
from benchmarks.tritune import days
from benchmarks.tritune.days import Case
from benchmarks.tritune.parts import CONSOLE, Scope, row, show
from benchmarks.tritune.played import Played
from benchmarks.tritune.questions import rate_series
from benchmarks.tritune.statistics import interval
from llmservice.tuning.simulator.load import Inside

GOALS: Final = {180.0: 1.20, 600.0: 1.40}
"""Accelerator hours in those of the lead-time oracle, by lead."""
QUICK_DAYS: Final = 2
COLUMNS: Final = ("", "hours", "met %", "violated minutes %", "replica changes", "reversals", "reloads", "dropped")


@dataclass(frozen=True)
class Week:
    """One case's controllers; the tuner first, then the lead-time oracle."""

    case: Case
    clairvoyant: float
    rows: tuple[Played, ...]

    @property
    def tuner(self) -> Played:
        """The tuner."""
        return self.rows[0]

    @property
    def ratio(self) -> float:
        """The tuner's hours in the oracle's."""
        return self.tuner.hours / self.rows[1].hours

    def saved(self, names: str) -> float:
        """Share of hours that the tuner saves against the rows so named.

        Beside the cheapest with no more violated minutes than the tuner or the goal, or, where none has as few, beside
        the one with the fewest.
        """
        mine = [one for one in self.rows[2:] if one.name.startswith(tuple(names.split(",")))]
        equal = [one for one in mine if one.violated <= max(self.tuner.violated, self.case.goal) + 1e-9]
        beside = min(equal, key=lambda one: one.hours) if equal else min(mine, key=lambda one: one.violated)
        return 1 - self.tuner.hours / beside.hours


def play_week(item: tuple[Case, bool, float]) -> Week:
    """(case, with baselines, days of training)."""
    case, baselines, training = item
    question = case.question()
    rows = [days.tuner(case, question), days.lead_oracle(case, question)]
    if baselines:
        rows += days.static(case, question)
        rows += days.retuned(case, question, case.training(training))
        rows += days.defaults(case, question)
    return Week(case, days.clairvoyant(case, question), tuple(rows))


def cases(scope: Scope) -> list[tuple[Case, bool, float]]:
    """What is played: the first seed at 180 s with baselines, the others without."""
    found = []
    for place, (name, whole) in enumerate(rate_series(scope.traces).items()):
        series = whole.part(0, 144 * QUICK_DAYS) if scope.quick else whole
        training = 0.5 if scope.quick else 3.0
        for lead in days.GOALS:
            for seed in range(1 if scope.quick else min(scope.seeds, 3)):
                baselines = lead == 180.0 and seed == 0 and (place == 0 or not scope.quick)
                found.append((Case(name, series, lead, seed), baselines, training))
        if not scope.quick:
            found.append((Case(f"{name} stepwise", series, 180.0, 0, Inside.STEPWISE), False, training))
    return found


def weeks(scope: Scope, figures: Figures) -> None:
    """W7."""
    found = scope.each(play_week, cases(scope))
    for week in found:
        case = week.case
        title = (
            f"W7: {case.name}, lead {case.lead:.0f} s, seed {case.seed}, second half; O1: {week.clairvoyant:.1f} hours"
        )
        show(title, COLUMNS, [row(one) for one in week.rows])
    linear = [week for week in found if week.case.inside is Inside.LINEAR]
    for lead, goal in GOALS.items():
        mine = [week for week in linear if week.case.lead == lead]
        ratio = interval([week.ratio for week in mine])
        CONSOLE.print(f"lead {lead:.0f} s: hours in the oracle's {ratio}")
        figures.add(f"w7_hours_by_oracle_{lead:.0f}s", ratio.mean, "ratio", goal)
        violated = interval([100 * week.tuner.violated for week in mine])
        figures.add(f"w7_violated_minutes_{lead:.0f}s", violated.mean, "%", 100 * days.GOALS[lead])
    _stepwise(found, figures)
    beside = [week for week in linear if len(week.rows) > 2]
    for name, names, goal in (
        ("static_p99", "B1 static p99", 35.0),
        ("static_peak", "B1 static peak", 50.0),
        ("retuned_autoscalers", "B3 HPA queue:compute (,B4 KEDA pending (,B5 KPA concurrency (", 20.0),
    ):
        saved = interval([100 * week.saved(names) for week in beside])
        figures.add(f"w7_saved_against_{name}", saved.mean, "%", goal, "higher")
    figures.add("w7_replica_changes_a_day", max(week.tuner.changes_a_day for week in linear), "changes/day", 24)
    figures.add("w7_reversals", sum(week.tuner.reversals for week in linear), "reversals", 0)
    figures.add(
        "w7_delay_reloads_a_day", max(week.tuner.reloads / week.tuner.days for week in linear), "reloads/day", 2
    )
    figures.add("w7_dropped_by_scaling", sum(week.tuner.run.tally.dropped_by_scaling for week in found), "requests", 0)


def _stepwise(found: Sequence[Week], figures: Figures) -> None:
    mine = [week for week in found if week.case.inside is Inside.STEPWISE]
    if mine:
        figures.add("w7_stepwise_hours_by_oracle_180s", interval([week.ratio for week in mine]).mean, "ratio")
        figures.add("w7_stepwise_violated_minutes_180s", 100 * max(week.tuner.violated for week in mine), "%")
