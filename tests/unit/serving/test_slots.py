"""The table of slots: nothing is lost, whoever is killed wherever."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmserving import slots as slots_module
from llmserving.slots import Slots, SlotsError

pytestmark = pytest.mark.unit


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Slots]:
    made = Slots.create(tmp_path / "engine.slots", 3)
    yield made
    made.close()


def wake_ups(table: Slots) -> int:
    value = ctypes.c_int()
    slots_module._libc.sem_getvalue(table._semaphore, ctypes.byref(value))
    return value.value


def test_each_slot_is_taken_once(table: Slots) -> None:
    assert [table.take(1), table.take(2), table.take(1)] == [0, 1, 2]
    assert table.take(1) is None
    assert (table.free(), table.held()) == (0, 3)
    assert [table.holder(slot) for slot in range(3)] == [1, 2, 1]


def test_a_slot_given_back_is_taken_again(table: Slots) -> None:
    slot = table.take(1)
    assert slot is not None
    table.give(slot)
    assert table.take(2) == slot
    assert wake_ups(table) == table.free() == 2


def test_a_gate_opens_the_table_that_the_engine_made(table: Slots) -> None:
    gate = Slots.open(table.path)
    assert gate.take(7) == 0
    assert table.holder(0) == 7
    gate.close()


def test_taking_waits_until_another_gives(table: Slots) -> None:
    held = [table.take(1) for _ in range(3)]
    taken: list[int | None] = []
    waiter = threading.Thread(target=lambda: taken.append(table.take(2, timeout=5)))
    waiter.start()
    assert held[1] is not None
    table.give(held[1])
    waiter.join(5)
    assert taken == [held[1]]


def test_taking_gives_up_in_time(table: Slots) -> None:
    for _ in range(3):
        table.take(1)
    started = time.monotonic()
    assert table.take(2, timeout=0.02) is None
    assert 0.015 < time.monotonic() - started < 1


def test_several_are_taken_at_once_or_not_at_all(table: Slots) -> None:
    table.take(1)
    assert table.take_all(2, 3) is None
    assert table.free() == 2
    assert table.take_all(2, 2) == [1, 2]


def test_recovery_frees_what_the_dead_held_and_keeps_what_is_inside(table: Slots) -> None:
    inside, sent_by_nobody, other = table.take(1), table.take(1), table.take(2)
    assert inside is not None
    assert table.recover(1, keep=frozenset({inside})) == 1
    assert [table.holder(slot) for slot in (0, 1, 2)] == [1, 0, 2]
    assert (sent_by_nobody, other) == (1, 2)
    assert wake_ups(table) == 1


def test_recovery_makes_up_for_a_wake_up_that_the_dead_took_along(table: Slots) -> None:
    assert slots_module._libc.sem_trywait(table._semaphore) == 0  # killed between waking and taking
    assert wake_ups(table) == 2
    table.recover(1)
    assert wake_ups(table) == table.free() == 3


def test_a_wake_up_too_many_finds_no_slot_and_does_no_harm(table: Slots) -> None:
    slots_module._libc.sem_post(table._semaphore)
    assert [table.take(1), table.take(1), table.take(1)] == [0, 1, 2]
    assert table.take(1, timeout=0.01) is None


def test_after_the_end_of_admission_slots_are_only_given(table: Slots) -> None:
    slot = table.take(1)
    assert slot is not None
    table.end_admission()
    assert table.take(1) is None
    assert not table.admits()
    table.give(slot)
    assert table.held() == 0
    assert table.take(1) is None


@pytest.mark.parametrize("count", [0, 65537])
def test_an_absurd_count_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(SlotsError, match=f"between 1 and 65536, not {count}"):
        Slots.create(tmp_path / "engine.slots", count)


def test_a_table_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "engine.slots").write_bytes(bytes(200))
    with pytest.raises(SlotsError, match="gate and engine must be of one release"):
        Slots.open(tmp_path / "engine.slots")
