"""A watch that fails ends the work of its process: it never leads on and hears nothing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import kopf
import pytest

from llmservice.process.login import login_by
from llmservice.process.watching import watch

pytestmark = pytest.mark.unit

FAILURE = RuntimeError("the watch was refused")


def kopf_that(fails: bool) -> Any:
    """kopf.operator by its stop flag: a thread of its loop waits for the flag, and the loop for the thread."""

    async def operator(stop_flag: threading.Event, **_: Any) -> None:
        waits = asyncio.get_running_loop().run_in_executor(None, stop_flag.wait)
        await asyncio.sleep(0)
        if fails:
            raise FAILURE
        await waits

    return operator


async def test_a_failure_of_kopf_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf, "operator", kopf_that(fails=True))
    watching = watch(lambda _: None, login_by(None, None), (), asyncio.Event())
    with pytest.raises(RuntimeError, match="the watch was refused"):
        await asyncio.wait_for(watching, timeout=30)


async def test_it_ends_quietly_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf, "operator", kopf_that(fails=False))
    stop = asyncio.Event()
    watching = asyncio.create_task(watch(lambda _: None, login_by(None, None), (), stop))
    stop.set()
    await asyncio.wait_for(watching, timeout=30)
