"""Which loads run, by whom, in which order, and for how long: passes in which the contenders take turns."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.figures import Size
from benchmarks.serving.contender import Result
from benchmarks.serving.roster import NAMES, Roster
from benchmarks.serving.workload import Load, bursts, fixed, long_prompts, mixed, open_loop, recorded
from llmservice.tuning.simulator.load import Load as Trace

OPEN_SHARE: Final = 0.7
"""Of what the torch engine gave to 16 streams: the load that arrives by itself."""
GUESSED_RATE: Final = 100.0
"""Tokens/s, where nothing was measured yet."""
RECORDED_REQUESTS: Final = 64
PASSES: Final = {Size.FULL: 9, Size.QUICK: 3, Size.SMOKE: 1}
BUDGET_SECONDS: Final = {Size.FULL: 36 * 60.0, Size.QUICK: 9.5 * 60.0, Size.SMOKE: math.inf}
"""For everything, starts included. A case is begun only where it still fits."""
LEAST_SHARE: Final = 0.6
"""Of the budget is for measuring, however long the starts took: the first of vLLM on a machine takes minutes."""
LONGEST_MINUTES: Final = 600.0
RESERVE_SECONDS: Final = 20.0
"""Of the budget: what ending all contenders takes."""
MIXED_ROUNDS: Final = {Size.FULL: 6, Size.QUICK: 4, Size.SMOKE: 2}
"""Jobs of each stream where lengths vary: many, before two passes ask for alike amounts, and before the end, when the
last and longest answers are alone, counts little beside the time when all streams are busy."""
FEW_ROUNDS: Final = {"torch-none": 1, "generate": 2}
"""Who takes long is asked only so many jobs of each stream. Neither has an end when few streams are busy: one answers
one at a time, the other whole batches."""
SERVED: Final = ("torch", "vllm", "vllm-triton")
MODES: Final = ("torch-none", "torch-dynamic", "torch-static", "generate")


@dataclass(frozen=True)
class Case:
    """One load and who runs it. Who is `seldom` takes part in every second pass only, for it takes long.

    A case that is `rest` is left out where there is little time.
    """

    name: str
    kind: str
    streams: int
    contenders: tuple[str, ...]
    seldom: tuple[str, ...] = ()
    rest: bool = False

    def names(self, number: int) -> tuple[str, ...]:
        """Who runs it in pass `number`, in this order: in turn from either end, so that nobody is always first."""
        names = self.contenders if number % 2 else (*self.contenders, *self.seldom)
        return names if number % 4 in (0, 3) else names[::-1]

    def load(self, number: int, size: Size, rate: float, trace: Trace | None = None) -> Load | None:
        """The load of a pass: always of the same shape, with other words, since an engine may remember prefixes.

        `rate` is tokens/s of the torch engine at 16 streams; None for a trace that is not at hand.
        """
        seed = 100_000 * (number + 1) + 1_000 * self.streams
        smoke = size is Size.SMOKE
        streams, tokens = (min(2, self.streams), 8) if smoke else (self.streams, 64)
        jobs = 1 if smoke else 2
        share = OPEN_SHARE * rate
        if self.kind == "long":
            return long_prompts(2, 16, 1, 200, seed) if smoke else long_prompts(4, 120, 6, 1_000, seed)
        if self.kind == "mixed":
            return mixed(streams, MIXED_ROUNDS[size], seed=seed)
        if self.kind == "open":
            return open_loop(fixed(streams, jobs, tokens, seed=seed), share / tokens, number)
        if self.kind == "bursts":
            return bursts(fixed(streams, 2 * jobs, tokens, seed=seed), streams, streams * tokens / share)
        if self.kind == "recorded":
            return None if trace is None else _recorded(trace, streams, share, 4 if smoke else RECORDED_REQUESTS, seed)
        return fixed(streams, max(jobs, 4 // streams), tokens, seed=seed)


CASES: Final = (
    Case("fixed_1", "fixed", 1, ("torch", "vllm")),
    Case("fixed_16", "fixed", 16, SERVED, seldom=(*MODES, "torch-alone")),
    Case("fixed_32", "fixed", 32, SERVED),
    Case("mixed_16", "mixed", 16, ("torch", "vllm"), seldom=MODES),
    Case("long_prompts", "long", 4, ("torch", "vllm")),
    Case("open", "open", 16, ("torch", "vllm")),
    Case("bursts", "bursts", 16, ("torch", "vllm"), rest=True),
    Case("recorded", "recorded", 16, ("torch", "vllm"), rest=True),
    Case("fixed_4", "fixed", 4, ("torch", "vllm"), rest=True),
    Case("fixed_64", "fixed", 64, ("torch", "vllm"), rest=True),
)


def cases(size: Size, names: Sequence[str] = NAMES) -> tuple[Case, ...]:
    """Those of a size that compare contenders of these `names`; for one name alone, all that it takes part in."""
    least = min(2, len(names))
    compared = (case for case in CASES if len({*case.contenders, *case.seldom} & set(names)) >= least)
    return tuple(case for case in compared if size is not Size.QUICK or not case.rest)


def deadline(size: Size, began: float, ready: float, budget: float | None = None) -> float:
    """Until when a run that `began` may measure, once all contenders are `ready`, on one clock in seconds."""
    budget = BUDGET_SECONDS[size] if budget is None else budget
    return max(began + budget - RESERVE_SECONDS, ready + LEAST_SHARE * budget)


def read_minutes(text: str) -> float | None:
    """Seconds of as many minutes; None for no text. Where it is no number, ends and says what to write."""
    if not text:
        return None
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 1.0 <= minutes <= LONGEST_MINUTES:
        sys.exit(f"MINUTES={text}: write a number from 1 to {LONGEST_MINUTES:.0f}, such as MINUTES=20")
    return 60.0 * minutes


@dataclass
class Rounds:
    """Results by case and contender, and within by the number of the pass. `skipped` says why a case never ran."""

    results: dict[tuple[str, str], dict[int, Result]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(self, case: str, name: str, number: int, result: Result) -> None:
        """Keeps one."""
        self.results.setdefault((case, name), {})[number] = result

    def of(self, case: str, name: str) -> list[Result]:
        """All results of one contender, by pass."""
        return list(self.results.get((case, name), {}).values())

    def pairs(self, case: str, one: str, other: str) -> list[tuple[Result, Result]]:
        """Of the passes that both went through."""
        ours, others = self.results.get((case, one), {}), self.results.get((case, other), {})
        return [(ours[number], others[number]) for number in sorted(ours.keys() & others.keys())]

    def rate(self) -> float:
        """Output tokens/s of the torch engine at 16 streams, when it last ran them."""
        found = self.of("fixed_16", "torch") or self.of("fixed_16", "vllm")
        return found[-1].tokens_per_second if found else GUESSED_RATE


def run(
    roster: Roster,
    size: Size,
    deadline: float,
    trace: Trace | None = None,
    names: Sequence[str] = NAMES,
    tell: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> Rounds:
    """Runs the cases that compare `names` in turns until its passes are done, or one that took long no longer fits.

    `deadline` is on `clock`. The first pass begins every case that it has time to begin.
    """
    done = Rounds()
    took: dict[tuple[str, str], float] = {}

    def fit(case: Case, present: list[str]) -> bool:
        return clock() + sum(took.get((case.name, name), 0.0) for name in present) <= deadline

    for number in range(PASSES[size]):
        for case in cases(size, names):
            present = roster.present(case.names(number))
            if not fit(case, present):
                present = [name for name in present if name not in case.seldom]
            if not fit(case, present):
                done.skipped.setdefault(case.name, "no time was left for it")
                continue
            load = case.load(number, size, done.rate(), trace)
            if load is None:
                done.skipped[case.name] = "no trace is at hand"
                continue
            for name in present:
                began = clock()
                _turn(roster, case, number, load, name, done, tell)
                took[case.name, name] = clock() - began
    return done


def _turn(
    roster: Roster, case: Case, number: int, load: Load, name: str, done: Rounds, tell: Callable[[str], None]
) -> None:
    few = load.streams * FEW_ROUNDS.get(name, len(load.jobs))
    asked = load if few >= len(load.jobs) else Load(load.name, load.jobs[:few], load.streams)
    result = roster.run(name, asked)
    if result is not None:
        done.add(case.name, name, number, result)
        tell(f"{case.name:14} {name:14} {result.tokens_per_second:7.1f} tokens/s in {result.seconds:5.1f} s")


def _recorded(trace: Trace, streams: int, rate: float, most: int, seed: int) -> Load:
    times, prompts, answers = (part[:most].tolist() for part in (trace.times, trace.input_tokens, trace.output_tokens))
    return recorded(times, prompts, answers, streams, rate, seed)
