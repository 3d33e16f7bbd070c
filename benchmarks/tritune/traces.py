"""W3 to W6: bursts, and requests that others recorded where their files are at hand, seeded stand-ins where not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.tritune.played import Played, play
from benchmarks.tritune.questions import CHAT, FIRST_TOKEN, NORMAL, dynamic, tokens
from llmservice.tuning.settings import Objective
from llmservice.tuning.simulator.kinds import DYNAMIC
from llmservice.tuning.simulator.load import Load
from llmservice.tuning.simulator.question import Question, smallest_fixed
from llmservice.tuning.simulator.run import Fixed, Tuner
from llmservice.tuning.simulator.series import parse_trace
from llmservice.tuning.simulator.standins import code, conversation, long_context
from llmservice.tuning.simulator.workloads import bursts

FILES: Final[dict[str, tuple[str, Callable[[int], Load], tuple[Objective, ...]]]] = {
    "W4 conversation": ("azure2023_conv.csv", conversation, CHAT),
    "W5 code": ("azure2023_code.csv", code, FIRST_TOKEN),
    "W6 long context": (
        "mooncake_conversation.jsonl",
        long_context,
        (Objective(FIRST_TOKEN[0].metric, 0.99, 30.0),),
    ),
}
"""By name: the file, the stand-in, the objectives (a prompt of 85,000 tokens alone takes six seconds)."""


def recorded(name: str, traces: Path | None, seed: int) -> tuple[str, Question]:
    """Where it comes from, and the question. A recorded trace is the same whatever the seed."""
    file, stand_in, objectives = FILES[name]
    path = traces / file if traces else None
    if path is not None and path.is_file():
        load = parse_trace(path.read_text())
        if isinstance(load, Load):
            return file, tokens(load, objectives, seed=seed)
    return "stand-in", tokens(stand_in(seed), objectives, seed=seed)


def bursty(seed: int) -> Question:
    """W3 on kind A."""
    return dynamic(bursts(0.9 * DYNAMIC.capacity, seed), NORMAL, most=6, seed=seed)


def compare(name: str, question: Question, skip: float = 900.0) -> list[Played]:
    """The tuner and the smallest fixed number of replicas that meets the objectives, judged after `skip` seconds."""
    count, _ = smallest_fixed(question)
    knobs = question.first_knobs(count)
    return [
        play(f"{name}: tuner", question, Tuner(question.settings), question.first_knobs(2), start=skip),
        play(f"{name}: fixed {count}", question, Fixed(knobs), knobs, start=skip),
    ]
