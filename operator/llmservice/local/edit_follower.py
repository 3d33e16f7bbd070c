"""Follows edits of the file while a server runs: each is told, and what can change live is brought to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from llmservice.local.edits import Edit, plan_edit
from llmservice.local.errors import LocalError
from llmservice.local.intent import Host, Intent
from llmservice.local.live import LiveKnobs
from llmservice.local.screen import Screen
from llmservice.triton.errors import TritonError
from llmservice.triton.live import LiveChangeError


@dataclass
class EditFollower:
    """`intent` is what runs. `read` gives that of the file as it is now; it raises LocalError. `edited` wakes."""

    intent: Intent
    read: Callable[[], Intent]
    host: Host
    screen: Screen
    edited: asyncio.Event

    async def follow(self, knobs: LiveKnobs) -> None:
        """Brings each edit until cancelled; the latest counts. One that was cut short is looked at the next time."""
        while True:
            await self.edited.wait()
            self.edited.clear()
            try:
                await self._bring(knobs)
            except (LocalError, LiveChangeError, TritonError) as error:
                self.screen.say(f"edit not applied: {error}")
            except asyncio.CancelledError:
                self.edited.set()
                raise
            except Exception as error:  # noqa: BLE001 - what serves goes on, and so does the look at later edits
                self.screen.say(f"edit not applied: {type(error).__name__}: {error}")

    async def _bring(self, knobs: LiveKnobs) -> None:
        self.screen.clear()  # reading may write an error of its own
        edit = plan_edit(self.intent, self.read(), self.host)
        for line in in_words(edit):
            self.screen.say(line)
        if await knobs.bring(edit.after.repository, self.edited.is_set):
            self.intent = edit.after


def in_words(edit: Edit) -> list[str]:
    """What comes of an edit, a line for each field."""
    lines = [f"edit: {change.field} changes live: {change.reason}" for change in edit.live]
    lines += [f"edit: {change.field} needs a restart of this command: {change.reason}" for change in edit.restart]
    lines += [f"edit: {change.field} changes nothing here: {change.reason}" for change in edit.without_effect]
    return lines or ["edit: nothing that serves differs"]
