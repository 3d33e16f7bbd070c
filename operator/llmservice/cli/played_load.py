"""What `llmservice simulate` plays, by its command line: an engine, and a load made up, recorded, or remembered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import typer

from llmservice.api.duration import parse_duration
from llmservice.cli.documents import UnreadableError, read_text
from llmservice.signals.past import connect, read_past
from llmservice.signals.prometheus import PrometheusError
from llmservice.tuning.simulator.history import HistoryError
from llmservice.tuning.simulator.kinds import DYNAMIC, LLAMA_8B_A100, BatchKind, Kind, TokenKind
from llmservice.tuning.simulator.load import Inside, Load, RateSeries, load_of, renewal
from llmservice.tuning.simulator.series import MOST_DAYS, TraceError, mend, parse_trace
from llmservice.tuning.simulator.standins import days
from llmservice.tuning.simulator.workloads import THINNED, WORKLOADS, follow

KINDS: Final[dict[str, Kind]] = {"dynamic": DYNAMIC, "llama-8b-a100": LLAMA_8B_A100}
BATCHING: Final = ("Continuous", "Dynamic")
DAYS: Final = "days"
"""The load that lasts as many of them as `--days` says."""
MOST_REQUESTS: Final = 30_000_000
"""Some GB of memory and minutes of one core."""
SO_MANY_REQUESTS: Final = ("conversation", "code", "long-context")
"""Made-up loads that have as many at any rate: at a lower one they last longer."""
LEAST_RATE: Final = 0.001
SHORT_SHARE: Final = 0.99
"""Of the past that was asked for: with less recorded, what is played is told."""

_APART: Final = (
    ("--trace", "--load"),
    ("--from-prometheus", "--load"),
    ("--from-prometheus", "--trace"),
    ("--from-prometheus", "--engine"),
    ("--trace", "--days"),
    ("--from-prometheus", "--days"),
)
"""Options that say the same thing."""
_ONLY_WITH: Final = {
    "--column": "--trace",
    "--inside": "--trace",
    "--service": "--from-prometheus",
    "--past": "--from-prometheus",
    "--batching": "--from-prometheus",
    "--max-sequences": "--from-prometheus",
}
_SERVICE: Final = re.compile(r"[a-z0-9][-a-z0-9]*/[a-z0-9][-.a-z0-9]*")


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
    batching: str = BATCHING[0]
    max_sequences: int = 64
    days: int = 3
    given: frozenset[str] = frozenset()
    """Options that were written, such as `--load`: the others have their defaults."""


def load_and_engine(request: Request) -> tuple[Kind, Load]:
    """What is played on what. Raises typer.BadParameter for what cannot be simulated."""
    _fits_together(request.given)
    kind, load = _past(request) if request.prometheus is not None else _present(request)
    if not len(load.times):
        raise typer.BadParameter(
            "no request comes at so low a rate, or within so short a time: write a higher --rate, or play longer",
            param_hint="--trace" if request.trace else "--rate",
        )
    if load.seconds > (MOST_DAYS + 1) * 86400:
        raise typer.BadParameter(
            f"the load lasts {load.seconds / 86400:,.0f} days: play {MOST_DAYS} or less, a part or at a higher rate",
            param_hint="--trace" if request.trace else "--rate",
        )
    return kind, load


def seconds_of(text: str, name: str, *, above_zero: bool = False) -> float:
    """A duration as option `name` has it. Raises typer.BadParameter."""
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=name) from error
    if above_zero and seconds <= 0:
        raise typer.BadParameter(f"{text} is no time: write one above zero, such as 300ms", param_hint=name)
    return seconds


def _fits_together(given: frozenset[str]) -> None:
    for one, other in _APART:
        if {one, other} <= given:
            raise typer.BadParameter(f"{other} says what to play, too: write one of the two", param_hint=one)
    for name, owner in _ONLY_WITH.items():
        if name in given and owner not in given:
            raise typer.BadParameter(f"it belongs to {owner}: write that too, or leave it out", param_hint=name)


def _one_of(text: str, names: Iterable[str], option: str) -> None:
    if text not in names:
        raise typer.BadParameter(f"no {text}: write {', '.join(names)}", param_hint=option)


def _few_enough(rate: float, seconds: float) -> None:
    if rate * seconds > MOST_REQUESTS:
        raise typer.BadParameter(
            f"{rate:g} requests/s over {seconds / 3600:.2f} h are more than {MOST_REQUESTS:,} requests: "
            f"write --rate {MOST_REQUESTS / seconds:.3g} or less",
            param_hint="--rate",
        )


def _present(request: Request) -> tuple[Kind, Load]:
    _one_of(request.kind, KINDS, "--engine")
    kind = KINDS[request.kind]
    return kind, _made_up(request, kind) if request.trace is None else _recorded(request, request.trace)


def _made_up(request: Request, kind: Kind) -> Load:
    _one_of(request.workload, WORKLOADS, "--load")
    if "--days" in request.given and request.workload != DAYS:
        raise typer.BadParameter(
            f"{request.workload} has its own length: leave it out, or write --load {DAYS}", param_hint="--days"
        )
    play = WORKLOADS[request.workload] if request.workload != DAYS else partial(_days, request.days)
    usual = 0.5 * kind.capacity if isinstance(kind, BatchKind) else 5.0
    rate = request.rate or (min(usual, THINNED) if request.workload == DAYS else usual)
    if request.workload not in SO_MANY_REQUESTS:
        _few_enough(rate, play(LEAST_RATE, request.seed).seconds)
    return play(rate, request.seed)


def _days(count: int, rate: float, seed: int) -> Load:
    """The stand-in for a service's days, of so many of them."""
    return follow(days(seed, count), seed, rate)


def _recorded(request: Request, path: Path) -> Load:
    _one_of(request.inside, list(Inside), "--inside")
    try:
        trace = parse_trace(read_text(path), request.column)
    except UnreadableError as error:
        raise typer.BadParameter(str(error), param_hint="--trace") from error
    except TraceError as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint="--trace") from error
    if isinstance(trace, Load):
        for name in ("--column", "--rate", "--inside"):
            if name in request.given:
                raise typer.BadParameter(
                    f"{path} has requests, which are played as they came, and no rates: leave {name} out",
                    param_hint=name,
                )
        return trace
    mended = mend(trace)
    filled = int(np.count_nonzero(mended.rates != trace.rates))
    if filled:
        holes = "1 window is a hole" if filled == 1 else f"{filled} windows are holes"
        typer.secho(f"{holes} in the recording, filled in here", err=True)
    mean = request.rate or float(mended.rates.mean())
    _few_enough(mean, mended.seconds)
    return follow(RateSeries(mended.rates, mended.window), request.seed, mean, Inside(request.inside))


def _past(request: Request) -> tuple[Kind, Load]:
    """The engine and the load of a service as Prometheus remembers them."""
    if not _SERVICE.fullmatch(request.service or ""):
        raise typer.BadParameter("write --service NAMESPACE/NAME", param_hint="--service")
    _one_of(request.batching, BATCHING, "--batching")
    namespace, _, name = (request.service or "").partition("/")
    seconds = seconds_of(request.past, "--past", above_zero=True)
    if seconds > MOST_DAYS * 86400:
        raise typer.BadParameter(f"{request.past} is too long: write {MOST_DAYS * 24}h or less", param_hint="--past")
    try:
        past = read_past(connect(request.prometheus or ""), namespace, name, datetime.now(UTC), seconds)
        series = past.series()  # first: without requests there are no steps either, and that says less
        kind = past.kind(request.max_sequences, continuous=request.batching != "Dynamic")
        if series.seconds < SHORT_SHARE * seconds:
            typer.secho(f"{series.seconds / 3600:.1f} h of {request.past} are recorded, and played", err=True)
        series = series.scaled_to(request.rate) if request.rate else series
        _few_enough(float(series.rates.mean()), series.seconds)
        random = np.random.default_rng([request.seed, 9])
        tokens = past.tokens() if isinstance(kind, TokenKind) else None
        return kind, load_of(renewal(series, random), series.seconds, random, tokens)
    except PrometheusError as error:
        raise typer.BadParameter(
            f"{request.prometheus or 'an empty text'} {error}", param_hint="--from-prometheus"
        ) from error
    except HistoryError as error:
        raise typer.BadParameter(f"{request.service}: {error}", param_hint="--service") from error
