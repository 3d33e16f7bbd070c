"""Results -> figures with goals, a JSON file of every run, and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.figures import Better, Figures, Size
from benchmarks.serving.contender import Result
from benchmarks.serving.picture import Bar, Line, bars, chart
from benchmarks.serving.plan import Rounds, cases
from benchmarks.serving.roster import Roster
from benchmarks.serving.workload import percentile

AVX2_GOAL: Final = 5.0
START_GOAL: Final = 10.0
SHORT_PROMPT: Final = 100
"""Tokens; longer ones are those that arrive beside the streams that are watched."""


def rate(result: Result) -> float:
    """Output tokens/s."""
    return result.tokens_per_second


def latency_p99(result: Result) -> float:
    """Seconds that all but one in a hundred whole answers do not exceed."""
    return percentile([answer.latency for answer in result.answers], 0.99)


def first_token_p99(result: Result) -> float:
    """The same of first tokens."""
    return percentile([answer.first_token for answer in result.answers], 0.99)


def stall(result: Result) -> float:
    """p99 of the time between tokens over its median, of the streams that decode while long prompts arrive."""
    pairs = zip(result.answers, result.load.jobs, strict=True)
    gaps = [gap for answer, job in pairs if job.prompt_tokens < SHORT_PROMPT for gap in answer.gaps()]
    return percentile(gaps, 0.99) / percentile(gaps, 0.5)


@dataclass(frozen=True)
class Wanted:
    """A figure: `measure` of one contender in a case, over that of another where there is one, pass by pass."""

    name: str
    case: str
    one: str
    other: str = ""
    goal: float | None = None
    better: Better = "higher"
    measure: Callable[[Result], float] = rate

    @property
    def contenders(self) -> tuple[str, ...]:
        """Whose results it needs."""
        return (self.one, self.other) if self.other else (self.one,)

    def values(self, rounds: Rounds) -> list[float]:
        """One for each pass that all of them went through."""
        if not self.other:
            return [self.measure(result) for result in rounds.of(self.case, self.one)]
        pairs = rounds.pairs(self.case, self.one, self.other)
        return [self.measure(ours) / self.measure(others) for ours, others in pairs]

    def why_missing(self, rounds: Rounds, roster: Roster) -> str:
        """Why it has no value."""
        gone = [f"{name}: {roster.absent[name]}" for name in self.contenders if name in roster.absent]
        return "; ".join(gone) or rounds.skipped.get(self.case) or "no time was left for all of its contenders"


def wanted(*, bfloat16: bool) -> tuple[Wanted, ...]:
    """All figures; `bfloat16` where the processor multiplies in it (AVX-512 BF16, AMX)."""
    return (
        *(
            Wanted(f"torch_over_vllm_fixed_{streams}", f"fixed_{streams}", "torch", "vllm", goal)
            for streams, goal in ((1, 1.0), (4, None), (16, 0.95), (32, 0.95), (64, None))
        ),
        Wanted("torch_over_vllm_mixed_16", "mixed_16", "torch", "vllm"),
        Wanted("torch_over_generate_fixed_16", "fixed_16", "torch", "generate", 1.0),
        Wanted("torch_over_generate_mixed_16", "mixed_16", "torch", "generate", 1.8),
        Wanted("torch_over_alone_fixed_16", "fixed_16", "torch", "torch-alone"),
        *(
            Wanted(f"vllm_driver_over_raw_{streams}", f"fixed_{streams}", "vllm-triton", "vllm", 0.97)
            for streams in (16, 32)
        ),
        Wanted("continuous_over_none_fixed_16", "fixed_16", "torch", "torch-none", 8.0 if bfloat16 else AVX2_GOAL),
        Wanted("continuous_over_dynamic_mixed_16", "mixed_16", "torch", "torch-dynamic", 1.5),
        Wanted("continuous_over_static_mixed_16", "mixed_16", "torch", "torch-static", 2.5),
        Wanted(
            "p99_latency_continuous_over_none_fixed_16", "fixed_16", "torch", "torch-none", 0.25, "lower", latency_p99
        ),
        Wanted(
            "p99_latency_continuous_over_none_mixed_16", "mixed_16", "torch", "torch-none", 0.6, "lower", latency_p99
        ),
        Wanted("decode_stall_torch", "long_prompts", "torch", "", 3.0, "lower", stall),
        Wanted("decode_stall_vllm", "long_prompts", "vllm", "", None, "lower", stall),
        *(
            Wanted(f"{word}_p99_torch_over_vllm_{case}", case, "torch", "vllm", None, "lower", measure)
            for case in ("open", "bursts", "recorded")
            for word, measure in (("first_token", first_token_p99), ("latency", latency_p99))
        ),
    )


def figures(rounds: Rounds, roster: Roster, names: Sequence[str], size: Size, out: Figures, *, bfloat16: bool) -> None:
    """Adds every figure of this size between `names`: its median and spread, or that and why it has none."""
    if "torch" in names:
        start = roster.ready_seconds.get("torch")
        if start is None:
            out.missing("torch_start", "s", roster.absent["torch"], START_GOAL)
        else:
            out.add("torch_start", start, "s", START_GOAL)
    known = {case.name for case in cases(size, names)}
    for one in wanted(bfloat16=bfloat16):
        if one.case in known and set(one.contenders) <= set(names):
            _add(one, rounds, roster, out)
    none, alone = rounds.of("fixed_16", "torch-none"), rounds.of("fixed_1", "vllm")
    if none and alone:
        # Whether one at a time is as fast as one can be alone: a slow baseline would flatter the others.
        out.add("none_over_vllm_alone", median(map(rate, none)) / median(map(rate, alone)), "ratio", 1.0, "higher")
    for name, seconds in roster.ready_seconds.items():
        if name != "torch":
            out.add(f"start_{name}", seconds, "s")
    for (case, name), results in sorted(rounds.results.items()):
        out.add(f"{name}_{case}", median(map(rate, results.values())), "tokens/s")


def write_runs(rounds: Rounds, path: Path) -> None:
    """Every run: tokens/s, and the percentiles of its latencies in seconds."""
    runs = []
    for (case, name), results in rounds.results.items():
        for number, result in results.items():
            latencies = [answer.latency for answer in result.answers]
            firsts = [answer.first_token for answer in result.answers]
            gaps = [gap for answer in result.answers for gap in answer.gaps()] or [0.0]
            shares = {"p50": 0.5, "p99": 0.99}
            run: dict[str, object] = {"case": case, "contender": name, "pass": number}
            run["output_tokens_per_second"] = round(result.tokens_per_second, 2)
            for word, values in (("latency", latencies), ("first_token", firsts), ("between_tokens", gaps)):
                run[word] = {share: round(percentile(values, at), 5) for share, at in shares.items()}
            runs.append(run)
    path.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")


def streams_picture(rounds: Rounds) -> str:
    """Output tokens/s over streams, a line for each contender, the spread of its passes as a band."""
    lines = []
    for name in ("torch", "vllm", "vllm-triton"):
        found = [(streams, rounds.of(f"fixed_{streams}", name)) for streams in (1, 4, 16, 32, 64)]
        points = tuple((streams, [rate(result) for result in results]) for streams, results in found if results)
        if points:
            lines.append(Line(name, points))
    return chart("Output tokens per second, 64 tokens in and out", "streams", lines)


def ratios_picture(rounds: Rounds, *, bfloat16: bool) -> str:
    """The ratios that have a goal: medians as bars, the spread of the passes, and the goal."""
    found = [(one, one.values(rounds)) for one in wanted(bfloat16=bfloat16) if one.other and one.goal is not None]
    return bars(
        "Ratios, and the goal of each",
        [Bar(one.name.replace("_", " "), values, one.goal or 0.0, one.better) for one, values in found if values],
    )


def _add(one: Wanted, rounds: Rounds, roster: Roster, out: Figures) -> None:
    values = one.values(rounds)
    if not values:
        if one.goal is not None:
            out.missing(one.name, "ratio", one.why_missing(rounds, roster), one.goal, one.better)
        return
    out.add(one.name, median(values), "ratio", one.goal, one.better)
    if len(values) > 1:
        out.add(f"{one.name}_lowest", min(values), "ratio")
        out.add(f"{one.name}_highest", max(values), "ratio")
