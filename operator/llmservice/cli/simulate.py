"""`llmservice simulate`: what objectives would cost under a load, tuned and with a fixed number of replicas."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from llmservice.api.duration import parse_duration
from llmservice.cli.documents import read_text
from llmservice.signals.past import connect, read_past
from llmservice.signals.prometheus import PrometheusError
from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.accelerate import available
from llmservice.tuning.simulator.history import HistoryError
from llmservice.tuning.simulator.kinds import DYNAMIC, LLAMA_8B_A100, BatchKind, Kind, TokenKind
from llmservice.tuning.simulator.load import Inside, Load, RateSeries, load_of, renewal
from llmservice.tuning.simulator.plant import PlantTimes
from llmservice.tuning.simulator.question import Question, smallest_fixed, tuned
from llmservice.tuning.simulator.run import Run
from llmservice.tuning.simulator.series import TraceError, mend, parse_trace
from llmservice.tuning.simulator.workloads import WORKLOADS, follow

KINDS: Final[dict[str, Kind]] = {"dynamic": DYNAMIC, "llama-8b-a100": LLAMA_8B_A100}


@dataclass(frozen=True)
class Request:
    """What the command line asked for. Durations as written."""

    kind: str
    workload: str
    trace: Path | None
    column: str | None
    rate: float | None
    inside: str
    latency: str | None
    first_token: str | None
    per_token: str | None
    max_replicas: int
    cold_start: str
    seed: int
    prometheus: str | None = None
    service: str | None = None
    past: str = "168h"
    batching: str = "Continuous"
    max_sequences: int = 64


def simulate_request(request: Request, *, as_json: bool) -> None:
    """Prints the comparison. Raises typer.BadParameter for what cannot be simulated."""
    kind, load = _past(request) if request.prometheus else _given(request)
    question = Question(
        kind=kind,
        load=load,
        objectives=_objectives(request, kind),
        max_replicas=request.max_replicas,
        times=PlantTimes(cold_start=_seconds(request.cold_start, "--cold-start")),
        seed=request.seed,
    )
    if not available() and len(question.load.times) > 200_000 and not as_json:
        typer.secho("without numba this takes minutes: pip install numba", fg=typer.colors.YELLOW, err=True)
    count, fixed = smallest_fixed(question)
    rows = [("tuned", tuned(question, start=count)), (f"fixed {count}", fixed)]
    if as_json:
        typer.echo(json.dumps({name: _figures(run, question) for name, run in rows}, indent=2))
    else:
        _print(question, rows)


def _given(request: Request) -> tuple[Kind, Load]:
    kind = KINDS.get(request.kind)
    if kind is None:
        raise typer.BadParameter(f"{request.kind} is no engine: write {' or '.join(KINDS)}", param_hint="--engine")
    return kind, _load(request, kind)


def _past(request: Request) -> tuple[Kind, Load]:
    """The engine and the load of a service as Prometheus remembers them."""
    namespace, _, name = (request.service or "").partition("/")
    if not namespace or not name:
        raise typer.BadParameter("write --service NAMESPACE/NAME", param_hint="--service")
    seconds = _seconds(request.past, "--past")
    try:
        past = read_past(connect(request.prometheus or ""), namespace, name, datetime.now(UTC), seconds)
        series = past.series()  # first: without requests there are no steps either, and that says less
        kind = past.kind(request.max_sequences, continuous=request.batching != "Dynamic")
        series = series.scaled_to(request.rate) if request.rate else series
        random = np.random.default_rng([request.seed, 9])
        tokens = past.tokens() if isinstance(kind, TokenKind) else None
        return kind, load_of(renewal(series, random), series.seconds, random, tokens)
    except PrometheusError as error:
        raise typer.BadParameter(f"{request.prometheus} {error}", param_hint="--from-prometheus") from error
    except HistoryError as error:
        raise typer.BadParameter(f"{request.service}: {error}", param_hint="--service") from error


def _load(request: Request, kind: Kind) -> Load:
    if request.trace is None:
        if request.workload not in WORKLOADS:
            raise typer.BadParameter(f"no {request.workload}: write {', '.join(WORKLOADS)}", param_hint="--load")
        default = 0.5 * kind.capacity if isinstance(kind, BatchKind) else 5.0
        return WORKLOADS[request.workload](request.rate or default, request.seed)
    try:
        trace = parse_trace(read_text(request.trace), request.column)
    except TraceError as error:
        raise typer.BadParameter(f"{request.trace}: {error}", param_hint="--trace") from error
    if isinstance(trace, Load):
        return trace
    mended = mend(trace)
    filled = int(np.count_nonzero(mended.rates != trace.rates))
    if filled:
        typer.secho(f"{filled} windows are holes in the recording and were filled in", err=True)
    mean = request.rate or float(mended.rates.mean())
    return follow(RateSeries(mended.rates, mended.window), request.seed, mean, Inside(request.inside))


def _objectives(request: Request, kind: Kind) -> tuple[Objective, ...]:
    asked = (
        (Metric.LATENCY, request.latency, "--latency"),
        (Metric.TIME_TO_FIRST_TOKEN, request.first_token, "--first-token"),
        (Metric.PER_OUTPUT_TOKEN, request.per_token, "--per-token"),
    )
    chosen = tuple(Objective(metric, 0.99, _seconds(text, name)) for metric, text, name in asked if text is not None)
    if chosen:
        return chosen
    if isinstance(kind, BatchKind):
        return (Objective(Metric.LATENCY, 0.99, 10 * kind.batch_seconds(1)),)
    return (Objective(Metric.TIME_TO_FIRST_TOKEN, 0.99, 2.0), Objective(Metric.PER_OUTPUT_TOKEN, 0.99, 0.06))


def _seconds(text: str, name: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=name) from error


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
        "changes: of replicas + of engine instances in place + of the delay by reloads of the gate", style="dim"
    )
