"""Scrapes the ready pods of every service in turn, and wakes a service's loop only when its figures changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from llmservice.api.status import SignalsStatus
from llmservice.kube.clock import Clock
from llmservice.signals.columns import Reading, columns
from llmservice.signals.scrape import Sample, ScrapeError

INTERVAL: Final = 30.0
"""Seconds between two looks at one service: at most two status writes a minute for the columns."""
CONCURRENCY: Final = 16
"""Pods that are asked at once, so that some that do not answer hold up no others."""

Key = tuple[str, str]
log = logging.getLogger(__name__)


class Reader(Protocol):
    """Reads one metrics page."""

    async def read(self, url: str, service: str) -> Sample:
        """The sample at `url`. Raises ScrapeError."""
        ...


@dataclass
class _Watched:
    urls: Mapping[str, str]
    reading: Reading | None = None
    figures: SignalsStatus | None = None
    due: float = 0.0


@dataclass
class SignalsWatch:
    """The figures of every service that has ready pods."""

    reader: Reader
    clock: Clock
    wake: Callable[[Key], None]
    _watched: dict[Key, _Watched] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self, key: Key, urls: Mapping[str, str]) -> None:
        """Sets the pods to read for a service, metrics address by pod uid; none stops it."""
        if not urls:
            self._watched.pop(key, None)
            return
        known = self._watched.get(key)
        if known is None:
            self._watched[key] = _Watched(dict(urls), due=self.clock.monotonic())
            self._changed.set()
        else:
            known.urls = dict(urls)

    def latest(self, key: Key) -> SignalsStatus | None:
        """The figures of the last look; None where none was taken or no pod is ready."""
        known = self._watched.get(key)
        return known.figures if known else None

    async def run(self, stop: asyncio.Event) -> None:
        """Looks at every service each `INTERVAL` seconds until `stop` is set."""
        stopped = asyncio.create_task(stop.wait())
        stopped.add_done_callback(lambda _: self._changed.set())
        try:
            while not stop.is_set():
                await self._round()
        finally:
            stopped.cancel()

    async def _round(self) -> None:
        """Looks at what is due, then waits for the next or for a change."""
        self._changed.clear()
        now = self.clock.monotonic()
        due = [key for key, known in self._watched.items() if known.due <= now]
        room = asyncio.Semaphore(CONCURRENCY)
        await asyncio.gather(*(self._look(key, room) for key in due))
        left = min((known.due for known in self._watched.values()), default=now + INTERVAL) - self.clock.monotonic()
        await self.clock.wait(self._changed, max(0.1, left))

    async def _look(self, key: Key, room: asyncio.Semaphore) -> None:
        known = self._watched.get(key)
        if known is None:
            return
        known.due = self.clock.monotonic() + INTERVAL
        pods, urls = list(known.urls), list(known.urls.values())
        samples = await asyncio.gather(*(self._sample(url, key, room) for url in urls))
        reading = Reading(self.clock.monotonic(), dict(zip(pods, samples, strict=True)))
        figures = columns(known.reading, reading, self.clock.now())
        changed = _shown(figures) != _shown(known.figures)
        known.reading = reading
        if changed:
            known.figures = figures
            self.wake(key)

    async def _sample(self, url: str, key: Key, room: asyncio.Semaphore) -> Sample | None:
        try:
            async with room:
                return await self.reader.read(url, key[1])
        except ScrapeError as error:
            log.debug("no sample: %s", error, extra={"service": f"{key[0]}/{key[1]}"})
            return None


def _shown(figures: SignalsStatus | None) -> object:
    """What people see of the figures: without the time."""
    return figures.model_copy(update={"observed_at": None}) if figures else None
