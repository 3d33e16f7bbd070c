"""The parts of TRITUNE: each plays, prints its table and adds its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figures
from benchmarks.tritune import checks, faulty, flapping, steps, traces
from benchmarks.tritune.played import Played
from benchmarks.tritune.predictions import foretold
from benchmarks.tritune.questions import NORMAL, TIGHT
from benchmarks.tritune.statistics import interval
from benchmarks.tritune.steady import SHARES, Compared, compare

Item = TypeVar("Item")
Result = TypeVar("Result")

REFERENCE: Final = Path(__file__).with_name("aiconfigurator.csv")
SAFE_SHARE: Final = 0.7
CONSOLE: Final = Console(width=150)


@dataclass(frozen=True)
class Scope:
    """How much is played. `workers` processes at once."""

    quick: bool
    seeds: int
    workers: int
    traces: Path | None

    def each(self, play: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """`play` of every item, in order."""
        items = list(items)
        if self.workers < 2 or len(items) < 2:
            return [play(item) for item in items]
        with ProcessPoolExecutor(self.workers) as pool:
            return list(pool.map(play, items))


def show(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One table."""
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    CONSOLE.print(table)


def simulator(scope: Scope, figures: Figures) -> None:
    """Checks of the simulator itself."""
    seconds = 400.0 if scope.quick else 3000.0
    ratios = [checks.inoue(*point, seconds) for point in checks.POINTS]
    figures.add("simulator_inoue_lowest", min(ratios), "bound/mean", 0.999, "higher")
    figures.add("simulator_inoue_highest", max(ratios), "bound/mean", 1.1)
    settings = [(rate, delay, count) for rate in (60.0, 300.0, 700.0) for delay in (0.0, 0.02) for count in (1, 2)]
    found = [checks.twice(*setting, 100.0 if scope.quick else 600.0) for setting in settings]
    figures.add("simulator_simpy_mean_difference", 100 * max(abs(one.mean) for one in found), "%", 3)
    figures.add("simulator_simpy_p99_difference", 100 * max(abs(one.p99) for one in found), "%", 3)
    figures.add("simulator_simpy_batch_difference", 100 * max(abs(one.batch) for one in found), "%", 3)
    points = checks.reference(REFERENCE)
    steady = [checks.steady(rate, theirs) for rate, theirs in points]
    capacity = max(rate for rate, _ in points)
    low = [one.difference for one in steady if one.rate <= SAFE_SHARE * capacity]
    high = [one.difference for one in steady if one.rate > SAFE_SHARE * capacity]
    figures.add("simulator_a100_difference", 100 * max(abs(one) for one in low), "%", 15)
    figures.add("simulator_a100_beyond_lowest", 100 * min(high), "%", -5, "higher")


def constant(scope: Scope, figures: Figures) -> None:
    """W1."""
    shares = (0.25, 0.55, 0.8) if scope.quick else SHARES
    items = [
        (share, objectives, seed) for seed in range(scope.seeds) for share in shares for objectives in (NORMAL, TIGHT)
    ]
    found = [one for one in scope.each(_compare, items) if one is not None]
    show(
        "W1: Poisson, kind A",
        ("share of capacity", "objective ms", "optimum", "p99 ms", "tuner", "p99 ms", "met %", "same"),
        [
            (
                one.share,
                1000 * one.objective.seconds,
                one.optimum.words,
                1000 * one.optimum.p99,
                one.reached.words,
                1000 * one.reached.p99,
                100 * one.attainment,
                one.same,
            )
            for one in found
        ],
    )
    figures.add("w1_accelerator_regret", 100 * float(np.mean([one.regret for one in found])), "%", 3)
    figures.add("w1_same_optimum", 100 * float(np.mean([one.same for one in found])), "%", 95, "higher")
    met = interval([100 * one.attainment for one in found])
    figures.add("w1_objective_met", met.mean, "%", 99.9, "higher")
    figures.add("w1_objective_met_worst", min(100 * one.attainment for one in found), "%")
    forecasts = [foretold(one.run, one.tuner) for one in found]
    errors = [error for one in forecasts for error in one.errors]
    held = [hold for one in forecasts for hold in one.held]
    if errors:
        figures.add("p99_prediction_error_median", 100 * float(np.median(np.abs(errors))), "%", 8)
        figures.add("p99_bound_coverage", 100 * float(np.mean(held)), "%", 93, "higher")
    optimum, reached = steps.two_instances(0)
    CONSOLE.print(f"coupled case: the best is {optimum}, the tuner reached {reached}")
    figures.add("w1_coupled_case_reached", float(optimum == reached), "yes", 1, "higher")


def _compare(item: tuple[float, tuple[object, ...], int]) -> Compared | None:
    share, objectives, seed = item
    return compare(share, objectives, seed)  # type: ignore[arg-type]


def stepping(scope: Scope, figures: Figures) -> None:
    """W2, and a plain doubling."""
    found = scope.each(steps.stepped, range(scope.seeds))
    show(
        "W2: x0.5, x2, x0.5, kind A, 180 s lead",
        (
            "seed",
            "met after lead %",
            "asked s",
            "serving s",
            "within objective s",
            "oscillations",
            "replica changes",
            "mean replicas",
        ),
        [
            (
                seed,
                100 * one.attainment,
                one.settle_up,
                one.settle_ready,
                one.within_again,
                one.oscillations,
                one.run.tally.replica_changes,
                one.run.mean_replicas,
            )
            for seed, one in enumerate(found)
        ],
    )
    met = interval([100 * one.attainment for one in found])
    CONSOLE.print(f"objective met after the lead time: {met} %")
    figures.add("w2_objective_met", met.mean, "%", 99.5, "higher")
    figures.add("w2_settle_asked", median(one.settle_up for one in found), "s", 60)
    figures.add("w2_settle_replicas", median(one.settle_ready for one in found), "s", 180 * 1.1 + 60)
    figures.add("w2_within_objective_again", median(one.within_again for one in found), "s")
    figures.add("w2_oscillations", sum(one.oscillations for one in found), "reversals", 0)
    twice = scope.each(steps.doubled, range(scope.seeds))
    figures.add("doubling_worst_p99", median(one.worst for one in twice), "objectives")
    figures.add("doubling_seconds_above_three_objectives", median(one.seconds_above_three for one in twice), "s", 240)


def recorded(scope: Scope, figures: Figures) -> None:
    """W3 to W6."""
    played: list[Played] = []
    for seed in range(min(scope.seeds, 3)):
        played += traces.compare("W3 bursts", traces.bursty(seed))
    for name in traces.FILES:
        source, question = traces.recorded(name, scope.traces, 0)
        played += traces.compare(f"{name} ({source})", question)
    show(
        "W3 to W6",
        ("", "hours", "met %", "violated minutes %", "replica changes", "reversals", "reloads", "dropped"),
        [row(one) for one in played],
    )
    mine = [one for one in played if one.name.endswith("tuner")]
    for name, goal in (("W3", None), ("W4", 99.5), ("W5", 99.0), ("W6", 99.0)):
        met = [100 * one.attainment for one in mine if one.name.startswith(name)]
        figures.add(f"{name.lower()}_objective_met", float(np.mean(met)), "%", goal, "higher")
    code = next(one for one in mine if one.name.startswith("W5"))
    figures.add("w5_mean_replicas", code.hours / (24 * code.days), "accelerators", 5.5)


def row(one: Played) -> tuple[object, ...]:
    """A line of a table of controllers."""
    return (
        one.name,
        one.hours,
        100 * one.attainment,
        100 * one.violated,
        one.replica_changes,
        one.reversals,
        one.reloads,
        one.dropped,
    )


def faults(scope: Scope, figures: Figures) -> None:
    """W8."""
    kinds = (False, True)
    items = [
        (fault, seed, kind)
        for seed in range(1 if scope.quick else min(scope.seeds, 5))
        for fault in range(len(faulty.FAULTS))
        for kind in kinds
    ]
    found = scope.each(_faulted, items)
    show(
        "W8: faults",
        ("", "kind", "scale-downs", "reloads", "windows to recover", "dropped by scaling", "met %"),
        [
            (
                one.name,
                "B" if kind else "A",
                one.scale_downs,
                one.reloads,
                one.windows_to_recover,
                one.dropped,
                100 * one.run.judge.attainment(1800.0),
            )
            for one, (_, _, kind) in zip(found, items, strict=True)
        ],
    )
    measuring = [one for one in found if one.measuring]
    figures.add("w8_scale_downs_on_missing_data", sum(one.scale_downs for one in measuring), "scale-downs", 0)
    figures.add("w8_reloads_by_faults", sum(one.reloads for one in measuring), "reloads", 0)
    figures.add("w8_windows_to_recover_worst", max(one.windows_to_recover for one in found), "windows", 3)
    figures.add("w8_dropped_by_scaling", sum(one.dropped for one in found), "requests", 0)


def _faulted(item: tuple[int, int, bool]) -> faulty.Faulted:
    number, seed, continuous = item
    return faulty.faulted(faulty.FAULTS[number], seed, continuous=continuous)


def adversary(scope: Scope, figures: Figures) -> None:
    """A search for flapping."""
    tries = 6 if scope.quick else 60
    worst = max(
        scope.each(partial(flapping.search, tries), range(min(scope.seeds, 2 if scope.quick else 5))),
        key=lambda one: (one.reversals, one.changes),
    )
    CONSOLE.print(f"worst of the search: {worst.reversals} reversals, {worst.changes} changes in 4 h")
    figures.add("adversary_reversals_worst", worst.reversals, "reversals", 0)
    figures.add("adversary_changes_worst", worst.changes, "changes/4h")
