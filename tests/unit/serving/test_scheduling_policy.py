"""Threads that pass on what others compute give way to them."""

from __future__ import annotations

import os
import threading

import pytest

from llmserving.scheduling_policy import give_way

pytestmark = pytest.mark.unit


def test_a_thread_and_those_it_starts_give_way_and_others_do_not() -> None:
    seen: list[int] = []

    def started() -> None:
        seen.append(os.sched_getscheduler(0))

    def passes_on() -> None:
        give_way()
        seen.append(os.sched_getscheduler(0))
        within = threading.Thread(target=started)
        within.start()
        within.join()

    thread = threading.Thread(target=passes_on)
    thread.start()
    thread.join()
    assert seen == [os.SCHED_BATCH, os.SCHED_BATCH]
    assert os.sched_getscheduler(0) != os.SCHED_BATCH


def test_a_system_that_refuses_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    give_way()
