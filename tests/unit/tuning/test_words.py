"""What a reason says is what decided, in numbers that are right."""

from __future__ import annotations

import pytest

from llmservice.tuning.decision import counted
from llmservice.tuning.guard import Guard
from llmservice.tuning.knob_moves import gain_in_words
from llmservice.tuning.optimise import Option
from llmservice.tuning.performance import Candidate
from llmservice.tuning.replicas import Need, Pace, decide_replicas
from llmservice.tuning.settings import Bounds

pytestmark = pytest.mark.unit


def option(replicas: int = 3, capacity: float = 700.0, busy: float = 1.0, tail: float = 0.9) -> Option:
    return Option(Candidate(1, 0.0, 66), replicas, capacity, None, busy, tail)


@pytest.mark.parametrize(
    ("better", "words"),
    [
        (option(replicas=2, capacity=900.0), "2 instead of 3 replicas would do"),
        (option(capacity=900.0), "a replica then takes 900 instead of 700 requests/s"),
        (option(capacity=650.0, busy=0.8), "engines compute 20 % less for the same requests"),
        (option(capacity=650.0, tail=0.5), "the tail takes 50 instead of 90 % of its objective"),
    ],
)
def test_a_gain_is_told_by_what_is_gained(better: Option, words: str) -> None:
    assert gain_in_words(option(), better) == words


@pytest.mark.parametrize(
    ("need", "supply", "most", "words"),
    [
        (Need(1, 1, 1, panic=7), 1, 1, "7 replicas are needed and maxReplicas is reached"),
        (Need(2, 2, 2), 1, 8, "2 replicas are needed when they are ready"),
        (Need(1, 1, 1), 0, 8, "1 replica is needed when they are ready"),
        (Need(1, 1, 1), 2, 8, "1 replica would do, if that lasts"),
    ],
)
def test_a_count_is_told_as_it_is(need: Need, supply: int, most: int, words: str) -> None:
    wanted = decide_replicas(Guard(), need, supply, Bounds(max_replicas=most), 1e6, Pace(180.0, 450.0), "", None)
    assert wanted.reason == words


def test_one_is_no_plural() -> None:
    assert [counted(number, "window") for number in (0, 1, 2)] == ["0 windows", "1 window", "2 windows"]
