"""Edits are followed for as long as the server runs, whatever one of them was."""

from __future__ import annotations

import asyncio
import io

import pytest

from llmservice.local.edit_follower import EditFollower
from llmservice.local.errors import LocalError
from llmservice.local.intent import Intent
from llmservice.local.live import LiveKnobs
from llmservice.local.screen import Screen
from tests.unit.local.manifests import HOST, intent

pytestmark = pytest.mark.unit


async def no_gates() -> int:
    return 0


@pytest.mark.parametrize("error", [LocalError("the file is none"), ValueError("odd"), OSError(28, "No space left")])
async def test_an_edit_that_fails_is_told_and_the_next_is_looked_at(error: Exception) -> None:
    reads: list[int] = []

    def read() -> Intent:
        reads.append(len(reads))
        (follower.edited if len(reads) == 1 else second).set()
        raise error

    shown, second = io.StringIO(), asyncio.Event()
    follower = EditFollower(intent(), read, HOST, Screen(shown), asyncio.Event())
    follower.edited.set()
    knobs = LiveKnobs("127.0.0.1:1", "", no_gates, follower.screen.say)
    following = asyncio.create_task(follower.follow(knobs))
    await asyncio.wait_for(second.wait(), timeout=60)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert reads == [0, 1]
    assert shown.getvalue().count("edit not applied: ") == 2
    assert str(error) in shown.getvalue()
