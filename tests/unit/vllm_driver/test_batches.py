"""Batches that run to completion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmvllm.batches import Batches

pytestmark = pytest.mark.unit


def test_a_batch_waits_for_its_members_and_for_the_one_before() -> None:
    batches = Batches()
    batches.arrive(1, 2, 10)
    assert batches.next() == []
    batches.arrive(1, 2, 11)
    assert batches.next() == [10, 11]
    batches.arrive(2, 1, 20)
    assert batches.next() == []
    batches.end(10)
    assert batches.next() == []
    batches.end(11)
    assert batches.next() == [20]


def test_a_batch_of_which_nothing_is_left_is_passed_over() -> None:
    batches = Batches()
    batches.arrive(1, 1, None)
    batches.arrive(2, 1, 20)
    batches.end(20)
    batches.arrive(3, 1, 30)
    assert batches.next() == [30]


def test_requests_outside_of_batches_are_ignored() -> None:
    batches = Batches()
    batches.end(99)
    assert batches.next() == []


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), max_size=6))
def test_every_accepted_member_goes_in_once_in_order(refused: list[list[bool]]) -> None:
    batches, key, expected, went = Batches(), 0, [], []
    for number, members in enumerate(refused):
        for is_refused in members:
            key += 1
            batches.arrive(number, len(members), None if is_refused else key)
            if not is_refused:
                expected.append(key)
    while inside := batches.next():
        went += inside
        for member in inside:
            batches.end(member)
    assert went == expected
