"""The engine instances of a service: found through the run directory, chosen by load."""

from __future__ import annotations

import threading
from collections.abc import Callable

from llmgate.link import Link
from llmserving.parameters import MeetingPlace
from llmserving.protocol import ProtocolError
from llmserving.slots import SlotsError


class Instances:
    """Live engine instances of a service, as far as they were discovered.

    `freed` is called, in the thread that relays tokens, when slots came free and before their last tokens are relayed.
    """

    def __init__(self, place: MeetingPlace, freed: Callable[[], None] = lambda: None) -> None:
        self._place = place
        self._freed = freed
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._missing = 0

    def discover(self) -> None:
        """Connects to instances that appeared."""
        for instance in self._place.instances():
            with self._lock:
                if instance in self._links:
                    continue
            try:
                link = Link(self._place, instance, self._ended, self._freed)
            except (OSError, ProtocolError, SlotsError):
                continue
            with self._lock:
                if not link.gone:
                    self._links[instance] = link
                    self._missing = max(0, self._missing - 1)

    def links(self) -> list[Link]:
        """All instances, the least loaded first, then those that only finish what they have."""
        with self._lock:
            links = list(self._links.values())
        return sorted(links, key=lambda link: link.slots.held())

    def admitting(self) -> list[Link]:
        """Instances whose slots can be taken, the least loaded first."""
        return [link for link in self.links() if link.slots.admits() and not link.gone]

    def slots(self) -> tuple[int, int]:
        """Slots of all instances, and how many of them are free."""
        links = self.admitting()
        return sum(link.slots.count for link in links), sum(link.slots.free() for link in links)

    def close(self) -> None:
        """Leaves every instance."""
        for link in self.links():
            link.close()

    @property
    def missing(self) -> int:
        """Instances that died and have not come back. One that drains says so first, and is not missed."""
        return self._missing

    def _ended(self, link: Link) -> None:
        with self._lock:
            self._links.pop(link.instance, None)
            if link.slots.admits():
                self._missing += 1
