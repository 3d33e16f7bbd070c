"""W3 to W6: bursts, and requests that others recorded where their files are at hand, seeded stand-ins where not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.tritune.cell import Cell, Numbers, Scope, played
from benchmarks.tritune.contest import Contest
from benchmarks.tritune.policies import compete, policies
from benchmarks.tritune.questions import CHAT, FIRST_TOKEN, NORMAL, dynamic, tokens
from llmservice.tuning.settings import Objective
from llmservice.tuning.simulator.kinds import DYNAMIC
from llmservice.tuning.simulator.load import Load, Tokens
from llmservice.tuning.simulator.series import parse_trace
from llmservice.tuning.simulator.standins import code, conversation, long_context
from llmservice.tuning.simulator.workloads import bursts

FILES: Final[dict[str, tuple[str, Callable[[int], Load], tuple[Objective, ...]]]] = {
    "W4": ("azure2023_conv.csv", conversation, CHAT),
    "W5": ("azure2023_code.csv", code, FIRST_TOKEN),
    "W6": ("mooncake_conversation.jsonl", long_context, (Objective(FIRST_TOKEN[0].metric, 0.99, 30.0),)),
}
"""By name: the file, the stand-in, the objectives (a prompt of 85,000 tokens alone takes six seconds)."""
TRAINING: Final = 1000


def cells(scope: Scope) -> Iterator[Cell]:
    """Everybody on each."""
    for seed in range(scope.seeds):
        for name in ("W3", *FILES):
            yield from (Cell(seed, name, "", policy) for policy in policies(continuous=name != "W3"))


def play(scope: Scope, cell: Cell) -> Numbers:
    """One contestant."""
    contest = bursty(scope, cell) if cell.workload == "W3" else recorded(scope, cell)
    return compete(cell.policy, contest)


def bursty(scope: Scope, cell: Cell) -> Contest:
    """W3 on kind A, judged after a quarter of an hour."""

    def question(seed: int) -> Load:
        return bursts(0.9 * DYNAMIC.capacity, seed)

    return Contest(
        dynamic(question(cell.seed), NORMAL, most=6, seed=cell.seed),
        dynamic(question(TRAINING), NORMAL, most=6, seed=TRAINING),
        start=900.0,
        learn=lambda name, find: played(scope, Cell(0, "W3", "", name), "recorded", find),
    )


def source(scope: Scope, workload: str) -> str:
    """The recorded file that is played, or `stand-in`."""
    file = FILES[workload][0]
    return file if scope.traces is not None and (scope.traces / file).is_file() else "stand-in"


def recorded(scope: Scope, cell: Cell) -> Contest:
    """W4 to W6 on kind B: trained on the first half, judged on the second. A recorded trace is the same for all seeds.

    The seed then still deals requests to replicas, and draws cold starts.
    """
    file, stand_in, objectives = FILES[cell.workload]
    whole = _read(scope.traces / file) if scope.traces and source(scope, cell.workload) == file else None
    load = whole or stand_in(cell.seed)
    training = whole or stand_in(TRAINING)
    half = round(load.seconds / 120) * 60.0
    lengths = Tokens(float(training.input_tokens.mean()), float(training.output_tokens.mean()), _spread(training))
    return Contest(
        tokens(load, objectives, seed=cell.seed),
        tokens(training.part(0.0, half), objectives, seed=TRAINING),
        start=half,
        tokens=lengths,
        learn=lambda name, find: played(scope, Cell(0, cell.workload, "", name), "recorded", find),
    )


def _spread(load: Load) -> float:
    return float(np.std(np.log(load.output_tokens + 1.0)))


@cache
def _read(path: Path) -> Load:
    load = parse_trace(path.read_text())
    if not isinstance(load, Load):
        raise TypeError(f"{path} holds rates, not requests")
    return load
