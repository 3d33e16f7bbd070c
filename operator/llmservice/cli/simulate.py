"""`llmservice simulate`: what objectives would cost under a load, tuned and with a fixed number of replicas."""

from __future__ import annotations

import json
from typing import Final

import typer
from rich.console import Console
from rich.table import Table

from llmservice.cli.played_load import Request, load_and_engine, seconds_of
from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.accelerate import available
from llmservice.tuning.simulator.kinds import BatchKind, Kind
from llmservice.tuning.simulator.plant import PlantTimes
from llmservice.tuning.simulator.question import Question, smallest_fixed, tuned
from llmservice.tuning.simulator.run import Run

LONG_SECONDS: Final = 4 * 86400.0
"""A load from which on somebody who waits should be told."""
ENOUGH: Final = 0.99
"""Share of requests within every objective from which on a fixed number of replicas is one that would do."""


def simulate_request(request: Request, *, as_json: bool) -> None:
    """Prints the comparison. Raises typer.BadParameter for what cannot be simulated."""
    kind, load = load_and_engine(request)
    question = Question(
        kind=kind,
        load=load,
        objectives=_objectives(request, kind),
        max_replicas=request.max_replicas,
        times=PlantTimes(cold_start=seconds_of(request.cold_start, "--cold-start")),
        seed=request.seed,
    )
    if not available() and len(load.times) > 200_000 and not as_json:
        typer.secho("without numba this takes minutes: pip install numba", fg=typer.colors.YELLOW, err=True)
    elif load.seconds > LONG_SECONDS and not as_json:
        typer.secho(f"{load.seconds / 86400:.0f} days take minutes", fg=typer.colors.YELLOW, err=True)
    count, fixed = smallest_fixed(question, ENOUGH)
    rows = [("tuned", tuned(question, start=count)), (f"fixed {count}", fixed)]
    if as_json:
        typer.echo(json.dumps({name: _figures(run, question) for name, run in rows}, indent=2))
    else:
        _print(question, rows)
    if fixed.judge.attainment() < ENOUGH:
        typer.secho(
            f"not even {count} replicas, never changed, give {ENOUGH:.0%} of the requests their objectives: "
            "write a higher --max-replicas, or longer objectives",
            fg=typer.colors.YELLOW,
            err=True,
        )


def _objectives(request: Request, kind: Kind) -> tuple[Objective, ...]:
    """Those asked for, else usual ones of the kind. Raises typer.BadParameter for one that the kind has no time for."""
    if request.per_token is not None and isinstance(kind, BatchKind):
        raise typer.BadParameter(
            "a batch that runs to completion has no time per token: write --latency, or play an engine that answers "
            "token by token",
            param_hint="--per-token",
        )
    asked = (
        (Metric.LATENCY, request.latency, "--latency"),
        (Metric.TIME_TO_FIRST_TOKEN, request.first_token, "--first-token"),
        (Metric.PER_OUTPUT_TOKEN, request.per_token, "--per-token"),
    )
    chosen = tuple(
        Objective(metric, 0.99, seconds_of(text, name, above_zero=True))
        for metric, text, name in asked
        if text is not None
    )
    if chosen:
        return chosen
    if isinstance(kind, BatchKind):
        return (Objective(Metric.LATENCY, 0.99, 10 * kind.batch_seconds(1)),)
    return (Objective(Metric.TIME_TO_FIRST_TOKEN, 0.99, 2.0), Objective(Metric.PER_OUTPUT_TOKEN, 0.99, 0.06))


def _figures(run: Run, question: Question) -> dict[str, float | int | list[float]]:
    judge, tally = run.judge, run.tally
    return {
        "attainmentPercent": 100 * judge.attainment(),
        "violatedMinutesPercent": 100 * judge.violated(),
        "p99Seconds": [judge.quantile(index, one.quantile) for index, one in enumerate(question.objectives)],
        "acceleratorHours": run.accelerator_hours,
        "meanReplicas": run.mean_replicas,
        "replicaChanges": tally.replica_changes,
        "instanceChanges": tally.instance_changes,
        "delayReloads": tally.delay_reloads,
        "dropped": tally.dropped,
    }


def _print(question: Question, rows: list[tuple[str, Run]]) -> None:
    load = question.load
    console = Console()
    console.print(
        f"{len(load.times)} requests in {load.seconds / 3600:.2f} h ({load.mean_rate:.2f}/s); "
        + "; ".join(one.words for one in question.objectives)
    )
    table = Table()
    names = ("", "met", "bad minutes", "p99", "hours", "mean", "changes")
    for name in names:
        table.add_column(name, justify="left" if not name else "right")
    for name, run in rows:
        p99 = ", ".join(
            f"{1000 * run.judge.quantile(index, one.quantile):.0f} ms" for index, one in enumerate(question.objectives)
        )
        tally = run.tally
        changes = f"{tally.replica_changes} + {tally.instance_changes} + {tally.delay_reloads}"
        table.add_row(
            name,
            f"{100 * run.judge.attainment():.2f} %",
            f"{100 * run.judge.violated():.2f} %",
            p99,
            f"{run.accelerator_hours:.2f}",
            f"{run.mean_replicas:.2f}",
            changes,
        )
    console.print(table)
    console.print(
        "fixed: the fewest replicas, never changed, that would have done: nobody knows them beforehand\n"
        "changes: of replicas + of engine instances in place + of the delay by reloads of the gate",
        style="dim",
    )
