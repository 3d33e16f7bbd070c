"""The figures that TRITUNE is for, each made of the cells it needs and told with its goal and its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from benchmarks.tritune.cell import Cell, Numbers
from benchmarks.tritune.policies import ENOUGH, RETUNED
from benchmarks.tritune.statistics import interval
from benchmarks.tritune.weeks import GOALS

Results = Mapping[Cell, Numbers]


@dataclass(frozen=True)
class Wanted:
    """One figure. `values` are by seed, or by case; `reduced` how one is made of them; the interval is of means."""

    name: str
    values: tuple[float, ...]
    unit: str
    goal: float | None = None
    better: Literal["lower", "higher"] = "lower"
    reduced: Literal["mean", "median", "worst", "sum"] = "mean"
    seeds: int = 0

    @property
    def value(self) -> float:
        """The figure."""
        if self.reduced == "worst":
            return max(self.values) if self.better == "lower" else min(self.values)
        if self.reduced == "sum":
            return float(np.sum(self.values))
        return float(np.mean(self.values) if self.reduced == "mean" else np.median(self.values))

    @property
    def ok(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        return self.value <= self.goal + 1e-9 if self.better == "lower" else self.value >= self.goal - 1e-9

    @property
    def words(self) -> str:
        """With the bootstrap interval, where it is a mean of several."""
        if self.reduced != "mean" or len(self.values) < 2:
            return f"{self.value:.4g}"
        return str(interval(self.values))


class Picked:
    """Cells of a workload, and their numbers by name."""

    def __init__(self, results: Results, workload: str, variant: str | None = None, policy: str = "tuner") -> None:
        self.cells = {
            cell: numbers
            for cell, numbers in sorted(results.items())
            if cell.workload == workload and cell.policy == policy and variant in (None, cell.variant) and numbers
        }

    def __call__(self, name: str) -> list[float]:
        """All values of one name."""
        return [value for one in self.cells.values() for value in _listed(one.get(name))]

    def by_seed(self, name: str) -> list[float]:
        """Means by seed."""
        found: dict[int, list[float]] = {}
        for cell, numbers in self.cells.items():
            found.setdefault(cell.seed, []).extend(_listed(numbers.get(name)))
        return [float(np.mean(values)) for values in found.values() if values]

    @property
    def seeds(self) -> int:
        """How many."""
        return len({cell.seed for cell in self.cells})


def _listed(value: float | list[float] | None) -> list[float]:
    found = value if isinstance(value, list) else [] if value is None else [value]
    return [one for one in found if np.isfinite(one)]


def wanted(results: Results) -> list[Wanted]:
    """Every figure that the results suffice for, in the order of the table."""
    made = [*_simulator(results), *_steady(results), *_stepped(results), *_recorded(results), *_weeks(results)]
    made += [*_aside(results), *_faults(results), *_rest(results)]
    return [one for one in made if one.values]


def _simulator(results: Results) -> Iterable[Wanted]:
    for check, name, unit, goal, better in (
        ("inoue", "lowest", "bound/mean", 0.999, "higher"),
        ("inoue", "highest", "bound/mean", 1.1, "lower"),
        ("simpy", "mean", "%", 3.0, "lower"),
        ("simpy", "p99", "%", 3.0, "lower"),
        ("simpy", "batch", "%", 3.0, "lower"),
        ("a100", "difference", "%", 15.0, "lower"),
        ("a100", "beyond_lowest", "%", -5.0, "higher"),
    ):
        cells = Picked(results, "simulator", check, "")
        yield Wanted(f"simulator_{check}_{name}", tuple(cells(name)), unit, goal, better, "worst", cells.seeds)  # type: ignore[arg-type]


def _steady(results: Results) -> Iterable[Wanted]:
    cells = Picked(results, "W1")
    seeds = cells.seeds
    yield Wanted("step_time_error", tuple(cells.by_seed("step_time_error")), "%", 2.0, seeds=seeds)
    yield Wanted(
        "step_time_error_worst", tuple(cells("step_time_error_worst")), "%", None, reduced="worst", seeds=seeds
    )
    counters = Picked(results, "W1 counters")
    believed = [
        float(np.mean(_listed(numbers.get("step_time_error"))))
        for numbers in counters.cells.values()
        if numbers["flagged"] < 0.5 and _listed(numbers.get("step_time_error"))  # type: ignore[operator]
    ]
    yield Wanted("step_time_error_counters", tuple(believed), "%", 10.0, reduced="worst", seeds=counters.seeds)
    for load, name in (("bursts", "under_bursts"), ("swing", "under_a_swing"), ("0.55", "of_one_load")):
        flagged = Picked(results, "W1 counters", load)
        shares = tuple(100 * one for one in flagged("flagged"))
        yield Wanted(f"counters_{name}_flagged", shares, "%", seeds=flagged.seeds)
    errors = [abs(one) for one in cells("errors")]
    yield Wanted("p99_prediction_error", tuple(errors), "%", 8.0, reduced="median", seeds=seeds)
    held = tuple(100 * one for one in cells.by_seed("held"))
    yield Wanted("p99_bound_coverage_least", held, "%", 93.0, "higher", seeds=seeds)
    yield Wanted("p99_bound_coverage_most", held, "%", 97.0, seeds=seeds)
    yield Wanted("w1_accelerator_regret", tuple(cells.by_seed("regret")), "%", 3.0, seeds=seeds)
    yield Wanted("w1_same_optimum", tuple(100 * one for one in cells.by_seed("same")), "%", 95.0, "higher", seeds=seeds)
    coupled = Picked(results, "W1", "coupled")
    yield Wanted(
        "w1_coupled_case", tuple(100 * one for one in coupled("same")), "%", 95.0, "higher", seeds=coupled.seeds
    )
    yield Wanted("w1_objective_met", tuple(cells.by_seed("met")), "%", 99.9, "higher", seeds=seeds)


def _stepped(results: Results) -> Iterable[Wanted]:
    cells = Picked(results, "W2")
    seeds = cells.seeds
    yield Wanted("w2_objective_met_after_lead", tuple(cells("met_after_lead")), "%", 99.5, "higher", seeds=seeds)
    yield Wanted("w2_settle_in_place", tuple(cells("settle_in_place")), "s", 60.0, reduced="median", seeds=seeds)
    yield Wanted("w2_settle_replicas", tuple(cells("settle_ready")), "s", 180 * 1.1 + 60, reduced="median", seeds=seeds)
    yield Wanted("w2_oscillations", tuple(cells("oscillations")), "reversals", 0.0, reduced="sum", seeds=seeds)
    for variant, name in (("", "doubling"), ("spare", "doubling_with_spare")):
        twice = Picked(results, "doubling", variant)
        above = tuple(twice("seconds_above_three"))
        yield Wanted(f"{name}_seconds_above_three_objectives", above, "s", 240.0, reduced="median", seeds=twice.seeds)
        worst = tuple(twice("worst_objectives"))
        yield Wanted(f"{name}_worst_p99", worst, "objectives", reduced="median", seeds=twice.seeds)


def _recorded(results: Results) -> Iterable[Wanted]:
    for workload, goal in (("W3", None), ("W4", 99.5), ("W5", 99.0), ("W6", 99.0)):
        cells = Picked(results, workload)
        met = tuple(cells("met"))
        yield Wanted(f"{workload.lower()}_objective_met", met, "%", goal, "higher", seeds=cells.seeds)


RATIO_GOALS: Final = {180: 1.20, 600: 1.40}
SAVED: Final = (
    ("static_p99", ("B1 static p99",), 35.0),
    ("static_peak", ("B1 static peak",), 50.0),
    ("retuned_autoscalers", RETUNED, 20.0),
)
"""By name: beside whom, and the goal. A fixed number of replicas that holds less is taken up to the fewest that hold as
much (`ENOUGH`)."""


def _weeks(results: Results) -> Iterable[Wanted]:
    everything = Picked(results, "W7")
    yield from _by_oracle(results, everything, "w7")
    steps = {cell: one for cell, one in everything.cells.items() if cell.variant.endswith("stepwise")}
    ratios = tuple(ratio for cell in steps if (ratio := against(results, cell, ("O2 lead-time oracle",))))
    yield Wanted("w7_stepwise_hours_by_oracle_180s", ratios, "ratio", seeds=len({cell.seed for cell in steps}))
    violated = tuple(float(np.mean(_listed(one["violated"]))) for one in steps.values())
    yield Wanted("w7_stepwise_violated_minutes_180s", violated, "%", seeds=len({cell.seed for cell in steps}))
    for name, policies, goal in SAVED:
        saved = _saved(results, everything, policies)
        yield Wanted(f"w7_saved_against_{name}", saved, "%", goal, "higher", seeds=everything.seeds)
    oracle = Picked(results, "W7", policy="O2 lead-time oracle")
    saved = _saved(results, oracle, (ENOUGH,))
    yield Wanted("w7_oracle_saved_against_static_enough", saved, "%", None, "higher", seeds=oracle.seeds)
    for name, unit, goal in (
        ("changes_a_day", "changes/day", 24.0),
        ("reloads_a_day", "reloads/day", 2.0),
    ):
        yield Wanted(f"w7_{name}", tuple(everything(name)), unit, goal, reduced="worst", seeds=everything.seeds)
    for name in ("reversals", "dropped_by_scaling"):
        yield Wanted(f"w7_{name}", tuple(everything(name)), name, 0.0, reduced="sum", seeds=everything.seeds)


def _by_oracle(results: Results, picked: Picked, name: str) -> Iterable[Wanted]:
    """Hours in the lead-time oracle's and violated minutes, by cold start."""
    for lead, goal in RATIO_GOALS.items():
        mine = {cell: one for cell, one in picked.cells.items() if cell.variant.endswith(f" {lead}")}
        seeds = len({cell.seed for cell in mine})
        ratios = tuple(ratio for cell in mine if (ratio := against(results, cell, ("O2 lead-time oracle",))))
        yield Wanted(f"{name}_hours_by_oracle_{lead}s", ratios, "ratio", goal, seeds=seeds)
        violated = tuple(float(np.mean(_listed(one["violated"]))) for one in mine.values())
        yield Wanted(f"{name}_violated_minutes_{lead}s", violated, "%", 100 * GOALS[lead], seeds=seeds)


def _aside(results: Results) -> Iterable[Wanted]:
    """As W7, on weeks that nobody tuned for."""
    cells = Picked(results, "W7 aside")
    yield from _by_oracle(results, cells, "aside")
    yield Wanted(
        "aside_changes_a_day", tuple(cells("changes_a_day")), "changes/day", 24.0, reduced="worst", seeds=cells.seeds
    )
    yield Wanted("aside_reversals", tuple(cells("reversals")), "reversals", 0.0, reduced="sum", seeds=cells.seeds)


def _saved(results: Results, picked: Picked, policies: Sequence[str]) -> tuple[float, ...]:
    """Hours saved at a cold start of 180 s, in percent, at equal attainment; by load."""
    found: list[float] = []
    for cell in picked.cells:
        others = policies
        if len(policies) == 1 and not _holds(results, cell, policies[0]):
            others = (ENOUGH,)
        ratio = against(results, cell, others, equal=True) if cell.variant.endswith(" 180") else None
        found += [] if ratio is None else [100 * (1 - ratio)]
    return tuple(found)


def _holds(results: Results, cell: Cell, policy: str) -> bool:
    """Whether another has no more violated minutes than `cell` or the goal."""
    other = results.get(Cell(cell.seed, cell.workload, cell.variant, policy))
    return not other or _one(other, "violated") <= _allowed(results[cell]) + 1e-9


def _allowed(mine: Numbers) -> float:
    return max(_one(mine, "violated"), 100 * GOALS[180])


def against(results: Results, cell: Cell, policies: Sequence[str], *, equal: bool = False) -> float | None:
    """The cell's hours in those of another on the same load: of several, the cheapest.

    With `equal`, the cheapest with no more violated minutes than the cell or its goal; where none has as few, the one
    with the fewest. None where nothing was played.
    """
    mine = results[cell]
    others = [
        found
        for policy in policies
        if (found := results.get(Cell(cell.seed, cell.workload, cell.variant, policy))) and found.get("hours")
    ]
    if not others:
        return None
    beside = others
    if equal:
        allowed = _allowed(mine)
        beside = [one for one in others if _one(one, "violated") <= allowed + 1e-9] or [
            min(others, key=lambda one: _one(one, "violated"))
        ]
    return _one(mine, "hours") / min(_one(one, "hours") for one in beside)


def _one(numbers: Numbers, name: str) -> float:
    value = numbers[name]
    assert not isinstance(value, list)
    return value


def _faults(results: Results) -> Iterable[Wanted]:
    cells = Picked(results, "W8")
    measuring = [one for one in cells.cells.values() if one.get("measuring")]
    downs = tuple(_one(one, "scale_downs") for one in measuring)
    yield Wanted("w8_scale_downs_on_missing_data", downs, "scale-downs", 0.0, reduced="sum", seeds=cells.seeds)
    reloads = tuple(_one(one, "reloads") for one in measuring)
    yield Wanted("w8_reloads_by_faults", reloads, "reloads", 0.0, reduced="sum", seeds=cells.seeds)
    recover = tuple(cells("windows_to_recover"))
    yield Wanted("w8_windows_to_recover", recover, "windows", 3.0, reduced="worst", seeds=cells.seeds)
    piled_up = tuple(cells("unavoidable"))
    yield Wanted("w8_windows_of_what_piled_up", piled_up, "windows", reduced="worst", seeds=cells.seeds)
    yield Wanted("w8_dropped_by_scaling", tuple(cells("dropped")), "requests", 0.0, reduced="sum", seeds=cells.seeds)


def _rest(results: Results) -> Iterable[Wanted]:
    cells = Picked(results, "adversary")
    yield Wanted("adversary_reversals", tuple(cells("reversals")), "reversals", 0.0, reduced="worst", seeds=cells.seeds)
    yield Wanted("adversary_changes", tuple(cells("changes")), "changes/4h", reduced="worst", seeds=cells.seeds)
    costs = [value for name in ("W2", "W4", "W7") for value in Picked(results, name)("cpu_ms")]
    yield Wanted("tuner_cpu_per_window", tuple(costs), "ms", 10.0, reduced="median")
