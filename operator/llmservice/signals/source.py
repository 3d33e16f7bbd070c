"""Where series come from: the pods' own pages, or a Prometheus. Both fill the same histories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from llmservice.signals.page import Page
from llmservice.signals.scrape import ScrapeError
from llmservice.signals.series import PodHistory

CONCURRENCY: Final = 16
"""Pods that are asked at once, so that some that do not answer hold up no others."""

PodKey = tuple[str, str]
"""Namespace and name of a pod."""
Histories = MutableMapping[PodKey, PodHistory]


@dataclass(frozen=True)
class Target:
    """A pod to read: where its metrics are, and the series that are wanted of it."""

    pod: PodKey
    url: str
    names: frozenset[str]
    statistics_url: str = ""
    """Triton's statistics of the model that clients call; empty: they are not worth reading."""
    token: str = field(default="", repr=False)


class Source(Protocol):
    """Brings what is new of every target into the histories."""

    name: str
    """As `status.signals.source` calls it."""

    async def collect(self, targets: Sequence[Target], histories: Histories, now: float) -> str:
        """Adds what the source has until `now`, seconds since the epoch.

        Returns what is wrong with the source as a whole, in words; empty when it answers. A pod of which it knows
        nothing gets nothing, and so grows old.
        """
        ...


class PageReader(Protocol):
    """Reads one metrics page."""

    async def page(self, url: str) -> Page:
        """The page at `url`. Raises ScrapeError."""
        ...


@dataclass
class PodPages:
    """Reads every pod directly: what there is without a Prometheus."""

    reader: PageReader
    name: str = "Pods"

    async def collect(self, targets: Sequence[Target], histories: Histories, now: float) -> str:
        """See `Source`. A pod that does not answer is no fault of the source."""
        room = asyncio.Semaphore(CONCURRENCY)

        async def read(target: Target) -> None:
            try:
                async with room:
                    page = await self.reader.page(target.url)
            except ScrapeError:
                return
            history_of(histories, target.pod).add(now, page.values(target.names))

        await asyncio.gather(*(read(target) for target in targets))
        return ""


def history_of(histories: Histories, pod: PodKey) -> PodHistory:
    """The pod's history, a new one where there is none."""
    return histories.setdefault(pod, PodHistory())


def forget(histories: Histories, keep: Mapping[PodKey, object], before: float) -> None:
    """Drops pods that are not among `keep`, and points older than `before`."""
    for pod in [pod for pod in histories if pod not in keep]:
        del histories[pod]
    for history in histories.values():
        history.forget_before(before)
