"""The engine instances of a service: found through the run directory, chosen by load."""

from __future__ import annotations

import threading
import time
from typing import Final

from llmgate.link import Link
from llmserving.parameters import MeetingPlace
from llmserving.protocol import ProtocolError
from llmserving.slots import SlotsError

ROTATE_SECONDS: Final = 0.002
"""How long to sleep at one instance's slots when another could free one, too."""


class Instances:
    """Live engine instances of a service, as far as they were discovered."""

    def __init__(self, place: MeetingPlace) -> None:
        self._place = place
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
                link = Link(self._place, instance, self._ended)
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

    def take(self, count: int, timeout: float) -> tuple[Link, list[int]] | None:
        """`count` slots of one instance, the least loaded that has them; None when there were none for `timeout` s."""
        deadline = time.monotonic() + timeout
        while True:
            links = self.admitting()
            for link in links:
                taken = link.slots.take_all(link.number, count)
                if taken is not None:
                    return link, taken
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            if len(links) == 1 and count == 1:
                slot = links[0].slots.take(links[0].number, left)
                if slot is not None:
                    return links[0], [slot]
            else:
                time.sleep(min(ROTATE_SECONDS, left))

    def free_slots(self) -> int:
        """Free slots of all instances."""
        return sum(link.slots.free() for link in self.admitting())

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
