"""The table of slots: nothing is lost, whoever is killed wherever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from llmserving.slots import Slots, SlotsError

pytestmark = pytest.mark.unit


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Slots]:
    made = Slots.create(tmp_path / "engine.slots", 3)
    yield made
    made.close()


def test_each_slot_is_taken_once(table: Slots) -> None:
    assert [table.take(1), table.take(2), table.take(1)] == [[0], [1], [2]]
    assert table.take(1) is None
    assert (table.free(), table.held()) == (0, 3)
    assert [table.holder(slot) for slot in range(3)] == [1, 2, 1]


def test_a_slot_given_back_is_taken_again(table: Slots) -> None:
    assert table.take(1, 2) == [0, 1]
    table.give(0)
    assert table.take(2) == [0]
    assert table.free() == 1


def test_a_gate_opens_the_table_that_the_engine_made(table: Slots) -> None:
    gate = Slots.open(table.path)
    assert gate.take(7) == [0]
    assert table.holder(0) == 7
    gate.close()


def test_several_are_taken_at_once_or_not_at_all(table: Slots) -> None:
    table.take(1)
    assert table.take(2, 3) is None
    assert table.free() == 2
    assert table.take(2, 2) == [1, 2]


def test_what_is_kept_free_is_not_taken(table: Slots) -> None:
    assert table.take(1, leave=2) == [0]
    assert table.take(1, leave=2) is None
    assert table.take(1, leave=1) == [1]


def test_a_more_urgent_request_of_another_gate_comes_first(table: Slots) -> None:
    table.wait(1, (2, 10.0))

    assert table.take(2, urgency=(2, 10.5)) is None, "it came later"
    assert table.take(2, urgency=(3, 9.0)) is None, "it is of a lower level"
    assert table.take(2, urgency=(1, 11.0)) == [0]
    assert table.take(1, urgency=(2, 10.0)) == [1], "one's own does not stand in its own way"
    table.wait(1, None)
    assert table.take(2, urgency=(3, 9.0)) == [2]


def test_a_dead_gate_stands_in_nobodys_way(table: Slots) -> None:
    table.wait(1, (1, 0.0))
    table.recover(1)
    assert table.take(2, urgency=(2, 5.0)) == [0]


def test_recovery_frees_what_the_dead_held_and_keeps_what_is_inside(table: Slots) -> None:
    for owner in (1, 1, 2):
        table.take(owner)
    assert table.recover(1, keep=frozenset({0})) == 1
    assert [table.holder(slot) for slot in (0, 1, 2)] == [1, 0, 2]


def test_after_the_end_of_admission_slots_are_only_given(table: Slots) -> None:
    assert table.take(1) == [0]
    table.end_admission()
    assert table.take(1) is None
    assert not table.admits()
    table.give(0)
    assert table.held() == 0
    assert table.take(1) is None


def test_more_slots_are_there_for_everybody_at_once(table: Slots) -> None:
    gate = Slots.open(table.path)
    assert gate.take(1, 4) is None
    table.set_count(5)
    assert gate.take(1, 4) == [0, 1, 2, 3]
    assert (gate.count, gate.free()) == (5, 1)
    gate.close()


def test_fewer_slots_leave_those_that_are_held(table: Slots) -> None:
    table.take(1, 3)
    table.set_count(1)
    assert (table.free(), table.held()) == (0, 3)
    table.give(0)
    table.give(1)
    assert table.take(1) is None, "the one that is held is the one there may be"
    table.give(2)
    assert table.take(1) == [0]


@pytest.mark.parametrize("count", [0, 65537])
def test_an_absurd_count_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(SlotsError, match=f"between 1 and 65536, not {count}"):
        Slots.create(tmp_path / "engine.slots", count)
    table = Slots.create(tmp_path / "engine.slots", 1)
    with pytest.raises(SlotsError, match=f"between 1 and 65536, not {count}"):
        table.set_count(count)


def test_a_table_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "engine.slots").write_bytes(bytes(70000))
    (tmp_path / "short.slots").write_bytes(b"SLOT")
    with pytest.raises(SlotsError, match="gate and engine must be of one release"):
        Slots.open(tmp_path / "engine.slots")
    with pytest.raises(SlotsError, match="gate and engine must be of one release"):
        Slots.open(tmp_path / "short.slots")
