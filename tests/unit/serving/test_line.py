"""The gate's line: who is next, who has waited too long, what a level may hold and must leave."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgate.levels import Levels, Limit
from llmgate.line import PATIENCE_TURNS, Line
from llmserving.parameters import ParameterError, Parameters

pytestmark = pytest.mark.unit

clock = count()


@dataclass(eq=False)
class Guest:
    """A request, as far as the line looks at it."""

    level: int = 1
    client: str = ""
    arrived: float = 0.0
    expires: float = float("inf")
    expected_work: float = 100.0


def line_of(*guests: Guest, levels: int = 3) -> Line[Guest]:
    line: Line[Guest] = Line(Levels((Limit(),) * levels, levels))
    for guest in guests:
        guest.arrived = next(clock)
        line.add(guest)
    return line


def order(line: Line[Guest], most: int = 1000) -> list[Guest]:
    """Gives out turns; requests end as expected."""
    taken: list[Guest] = []
    while len(taken) < most and (first := line.first()) is not None:
        line.take(first)
        taken.append(first)
    return taken


def test_a_higher_level_goes_first_and_a_level_keeps_its_order() -> None:
    low, other_low, middle, high = Guest(3), Guest(3), Guest(2), Guest(1)
    assert order(line_of(low, other_low, middle, high)) == [high, middle, low, other_low]


def test_clients_of_a_level_take_turns_however_many_requests_one_has() -> None:
    many, few = [Guest(client="many") for _ in range(6)], [Guest(client="few") for _ in range(2)]
    served = [guest.client for guest in order(line_of(*many, *few))]
    assert Counter(served[:4]) == {"many": 2, "few": 2}


def test_turns_are_counted_in_work_and_not_in_requests() -> None:
    long, short = [Guest(client="long", expected_work=400) for _ in range(4)], [Guest(client="short") for _ in range(8)]
    served = [guest.client for guest in order(line_of(*long, *short))]
    assert Counter(served[:10]) == {"long": 2, "short": 8}


def test_what_was_expected_and_not_needed_is_given_back() -> None:
    modest, other = [Guest(client="modest", expected_work=10_000) for _ in range(3)], Guest(client="other")
    line = line_of(*modest, other)
    assert order(line, 2) == [modest[0], other]
    line.ended(modest[0], prompt_tokens=2, output_tokens=4)
    line.ended(other, prompt_tokens=100, output_tokens=0)
    assert line.first() is modest[1]


def test_who_was_away_saves_no_turns() -> None:
    line = line_of(*(Guest(client="steady") for _ in range(8)))
    order(line, 4)
    back = [Guest(client="back") for _ in range(4)]
    for guest in back:
        line.add(guest)
    assert Counter(guest.client for guest in order(line, 4)) == {"steady": 2, "back": 2}


def test_a_newcomer_does_not_make_up_for_what_others_had_before_it_came() -> None:
    line = line_of(*(Guest(client="steady") for _ in range(6)))
    order(line)
    for guest in [Guest(client="new") for _ in range(4)] + [Guest(client="steady") for _ in range(4)]:
        line.add(guest)
    assert Counter(guest.client for guest in order(line, 4)) == {"steady": 2, "new": 2}


def test_a_lower_level_gets_a_turn_after_many_of_higher_ones() -> None:
    line = line_of(*(Guest(1) for _ in range(40)), Guest(3), Guest(2))
    levels = []
    for _ in range(40):
        first = line.first()
        assert first is not None
        assert line.owes_a_turn == (first.level != 1)
        line.take(first)
        levels.append(first.level)
    assert levels == [1] * PATIENCE_TURNS + [3] + [1] * PATIENCE_TURNS + [2] + [1] * (40 - 2 * PATIENCE_TURNS - 2)


def test_who_had_a_turn_for_nothing_is_first_again() -> None:
    first, second = Guest(client="a"), Guest(client="a")
    line = line_of(first, second)
    line.take(first)
    line.put_back(first)
    assert order(line) == [first, second]


def test_it_tells_who_has_waited_too_long() -> None:
    short, long, for_ever = Guest(expires=5), Guest(level=2, expires=6), Guest()
    line = line_of(short, long, for_ever)
    assert line.expired(5.5) == [short]
    line.drop(short)
    line.take(long)
    line.put_back(long)
    assert line.expired(9) == [long]
    assert len(line) == 2


def test_each_level_has_a_limit_of_its_own() -> None:
    line: Line[Guest] = Line(Levels((Limit(max_size=1), Limit()), 2))
    for guest in (Guest(1), Guest(2), Guest(2), Guest(2)):
        line.add(guest)
    assert not line.overfull(1)
    line.add(Guest(1))
    assert line.overfull(1)
    assert not line.overfull(2)
    assert (line.size(1), line.size(2)) == (2, 3)


@given(st.lists(st.tuples(st.sampled_from("atdpe"), st.integers(1, 3), st.sampled_from("xyz")), max_size=60))
def test_it_forgets_every_client_and_counts_right_whatever_happens(steps: list[tuple[str, int, str]]) -> None:
    line = line_of()
    inside: list[Guest] = []
    waiting: list[Guest] = []
    for what, level, client in steps:
        first = line.first()
        if what == "a":
            waiting.append(Guest(level, client, next(clock)))
            line.add(waiting[-1])
        elif what == "t" and first is not None:
            line.take(first)
            waiting.remove(first)
            inside.append(first)
        elif what == "d" and waiting:
            line.drop(waiting.pop(0))
        elif what == "p" and inside:
            waiting.append(inside.pop())
            line.put_back(waiting[-1])
        elif what == "e" and inside:
            line.ended(inside.pop(0), 3, 4)
        assert len(line) == len(waiting) == sum(line.size(level) for level in (1, 2, 3))
        assert set(line) == set(waiting)
    for guest in waiting:
        line.drop(guest)
    for guest in inside:
        line.ended(guest, 0, 0)
    assert line.first() is None
    assert all(not shares._served and not shares._present for shares in line._shares.values())


@pytest.mark.parametrize(
    ("level", "sequences", "slots", "left"),
    [(1, 16, 18, 0), (2, 16, 18, 3), (3, 16, 18, 4), (3, 64, 66, 10), (3, 1, 3, 2), (3, 2, 4, 3), (3, 16, 8, 2)],
)
def test_lower_levels_leave_room_for_higher_ones(level: int, sequences: int, slots: int, left: int) -> None:
    assert Levels((Limit(),) * 3, 3).slots_left_free(level, sequences, slots) == left


def test_without_levels_nothing_is_kept_free() -> None:
    assert Levels().slots_left_free(1, 16, 18) == 0


def test_levels_are_read_from_the_models_parameters() -> None:
    read = Levels.of(
        Parameters(
            {
                "priority_levels": "2",
                "default_priority_level": "1",
                "queue_limits": '[{"max_size": 5, "timeout_us": 1500000}, {}]',
            }
        )
    )
    assert read == Levels((Limit(5, 1.5), Limit()), 1)
    assert Levels.of(Parameters({})) == Levels((Limit(),), 1)
    assert Levels.of(Parameters({"priority_levels": "3"})).default == 3


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"priority_levels": "2", "default_priority_level": "3"}, "default_priority_level.*3 is none of 2 levels"),
        ({"queue_limits": "5"}, "queue_limits.*JSON list"),
        ({"queue_limits": "[5]"}, "queue_limits.*JSON list"),
        ({"priority_levels": "2", "queue_limits": "[{}]"}, "1 limits for 2 levels"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Levels.of(Parameters(parameters))
