"""How many slots the engine instances of a service have: as configured, until another count is set while they run.

A count that was set lies in a file of the run directory beside the tables, so that instances which start later take it
too. It holds for the configuration it was set under: one that names another count is newer, and wins.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Final

from llmserving.parameters import MeetingPlace
from llmserving.server_process import listens
from llmserving.slots import Slots, check_count

FILE: Final = "slots.json"


@dataclass(frozen=True)
class SlotSetting:
    """The slots of every instance in `place`; `configured` is the count in the engine's configuration."""

    place: MeetingPlace
    configured: int

    def in_force(self) -> int:
        """The count that holds now."""
        return self._set() or self.configured

    def set(self, count: int) -> None:
        """Gives every instance `count` slots, those that run and those that come. Raises SlotsError, OSError."""
        check_count(count)
        text = json.dumps({"configured": self.configured, "slots": count})
        fresh = self.place.folder / f".{FILE}.{os.getpid()}"
        fresh.write_text(text)
        fresh.rename(self.place.folder / FILE)
        for instance in self._living():
            with contextlib.suppress(FileNotFoundError), contextlib.closing(self._table(instance)) as table:
                table.set_count(count)

    def counts(self) -> dict[str, int]:
        """What each instance that runs has, by its name."""
        counts = {}
        for instance in self._living():
            with contextlib.suppress(FileNotFoundError), contextlib.closing(self._table(instance)) as table:
                counts[instance] = table.count
        return counts

    def keep(self, table: Slots) -> None:
        """Brings an instance's own table to the count that holds; where the file was taken away, the table knows it."""
        kept = self._set()
        if kept is None and table.count != self.configured:
            self.set(table.count)
        elif table.count != (kept or self.configured):
            table.set_count(kept or self.configured)

    def _set(self) -> int | None:
        try:
            found = json.loads((self.place.folder / FILE).read_bytes())
            configured, slots = found["configured"], found["slots"]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError):
            return None  # not ours, or of another release
        return int(slots) if configured == self.configured else None

    def _living(self) -> list[str]:
        return [instance for instance in self.place.instances() if listens(self.place, instance)]

    def _table(self, instance: str) -> Slots:
        return Slots.open(self.place.slots(instance))
