"""Results -> figures with goals, a JSON file of every run, and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import torch

from benchmarks.figures import Figures
from benchmarks.serving.contender import Contender, Result
from benchmarks.serving.picture import Line, chart
from benchmarks.serving.plan import STREAMS, Rounds
from benchmarks.serving.workload import percentile
from llmtorch.loader import cpu_dtype

RATIO_GOALS = {
    ("fixed_1", "torch", "vllm"): 1.0,
    ("fixed_4", "torch", "vllm"): None,
    ("fixed_16", "torch", "vllm"): 0.95,
    ("fixed_32", "torch", "vllm"): 0.95,
    ("fixed_64", "torch", "vllm"): None,
    ("mixed_16", "torch", "vllm"): None,
    ("open", "torch", "vllm"): None,
    ("fixed_16", "torch", "generate"): 1.0,
    ("mixed_16", "torch", "generate"): 1.8,
    ("mixed_16", "torch", "torch-dynamic"): 1.5,
    ("mixed_16", "torch", "torch-static"): 2.5,
}
LATENCY_GOALS = {"fixed_16": 0.25, "mixed_16": 0.6}


def figures(rounds: Rounds, contenders: dict[str, Contender], out: Figures) -> None:
    """Adds all figures whose contenders ran."""
    out.add("torch_engine_start", contenders["torch"].ready_seconds, "s", goal=10)
    for (case, one, other), goal in RATIO_GOALS.items():
        if rounds.has(case, one, other):
            _ratio(out, f"{_word(one)}_over_{_word(other)}_{case}", rounds.ratios(case, one, other), goal)
    if rounds.has("fixed_16", "torch", "torch-none"):
        goal = 8.0 if cpu_dtype() is torch.bfloat16 else 5.0  # AVX-512 or AVX2
        _ratio(out, "continuous_over_none_fixed_16", rounds.ratios("fixed_16", "torch", "torch-none"), goal)
    for case, goal in LATENCY_GOALS.items():
        if rounds.has(case, "torch", "torch-none"):
            ours, none = (_latency(rounds.results[case, name]) for name in ("torch", "torch-none"))
            _ratio(out, f"p99_latency_continuous_over_none_{case}", _shares(ours, none), goal, better="lower")
    for name in ("torch", "vllm"):
        if rounds.has("long_prompts", name):
            stalls = [_stall(result) for result in rounds.results["long_prompts", name]]
            _ratio(out, f"decode_stall_{name}", stalls, 3.0 if name == "torch" else None, better="lower")
    for (case, name), results in sorted(rounds.results.items()):
        out.add(f"{name}_{case}", median(result.tokens_per_second for result in results), "tokens/s")


def write_runs(rounds: Rounds, path: Path) -> None:
    """Every run: tokens/s, and the percentiles of its latencies in seconds."""
    runs = []
    for (case, name), results in rounds.results.items():
        for round_, result in enumerate(results):
            latencies = [answer.latency for answer in result.answers]
            firsts = [answer.first_token for answer in result.answers]
            gaps = [gap for answer in result.answers for gap in answer.gaps()] or [0.0]
            shares = {"p50": 0.5, "p99": 0.99}
            run: dict[str, object] = {"case": case, "contender": name, "round": round_}
            run["output_tokens_per_second"] = round(result.tokens_per_second, 2)
            for word, values in (("latency", latencies), ("first_token", firsts), ("between_tokens", gaps)):
                run[word] = {share: round(percentile(values, at), 5) for share, at in shares.items()}
            runs.append(run)
    path.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")


def write_picture(rounds: Rounds, path: Path) -> None:
    """Output tokens/s over streams, a line for each contender, the spread of its rounds as a band."""
    lines = []
    for name in ("torch", "vllm"):
        cases = [(n, f"fixed_{n}") for n in STREAMS if rounds.has(f"fixed_{n}", name)]
        points = [(n, [r.tokens_per_second for r in rounds.results[case, name]]) for n, case in cases]
        if points:
            lines.append(Line(name, tuple(points)))
    path.write_text(chart("Output tokens per second, 64 tokens in and out", "streams", lines), encoding="utf-8")


def _ratio(out: Figures, name: str, ratios: Sequence[float], goal: float | None, better: str = "higher") -> None:
    out.add(name, median(ratios), "ratio", goal=goal, better="higher" if better == "higher" else "lower")
    if len(ratios) > 1:
        out.add(f"{name}_lowest", min(ratios), "ratio")
        out.add(f"{name}_highest", max(ratios), "ratio")


def _latency(results: Iterable[Result]) -> list[float]:
    return [percentile([answer.latency for answer in result.answers], 0.99) for result in results]


def _shares(ours: Sequence[float], others: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(ours, others, strict=True)]


def _stall(result: Result) -> float:
    """p99 of the time between tokens over its median, of the streams that decode while long prompts arrive."""
    watched = [a for a, job in zip(result.answers, result.load.jobs, strict=True) if job.prompt_tokens < 100]
    gaps = [gap for answer in watched for gap in answer.gaps()]
    return percentile(gaps, 0.99) / percentile(gaps, 0.5)


def _word(name: str) -> str:
    """The mode stands for the torch engine in figures that compare modes."""
    return {"torch-dynamic": "dynamic", "torch-static": "static"}.get(name, name)
