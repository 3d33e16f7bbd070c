"""Triton's statistics of a model, read as series: exact execution times by batch size.

`GET /v2/models/<model>/stats` counts executions and their compute time for each batch size (server's
docs/protocol/extension_statistics.md). Counters by request, `nv_inference_*`, weigh a batch by its size and cannot
tell a from c under bursts. Statistics begin anew with every full load of the model; a counter that fell says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp

from llmservice.signals.adapters import BATCH_EXECUTIONS, BATCH_SECONDS
from llmservice.signals.scrape import LONGEST_PAGE, SCRAPE_SECONDS, ScrapeError
from llmservice.signals.series import SeriesId
from llmservice.signals.source import CONCURRENCY, Histories, Source, Target
from llmservice.workload.names import TOKEN_HEADER

Points = Sequence[tuple[SeriesId, float]]


class StatisticsReader(Protocol):
    """Reads one model's statistics."""

    async def statistics(self, url: str, token: str) -> Points:
        """The series at `url`. Raises ScrapeError."""
        ...


@dataclass
class TritonStatistics:
    """Reads statistics over HTTP; they are a restricted API, so the token goes along."""

    session: aiohttp.ClientSession

    async def statistics(self, url: str, token: str) -> Points:
        """See `StatisticsReader`."""
        headers = {TOKEN_HEADER: token} if token else {}
        timeout = aiohttp.ClientTimeout(total=SCRAPE_SECONDS)
        try:
            async with self.session.get(url, headers=headers, timeout=timeout) as answer:
                answer.raise_for_status()
                if (answer.content_length or 0) > LONGEST_PAGE:
                    raise ValueError(f"statistics of more than {LONGEST_PAGE >> 20} MiB")
                return series_of(await answer.json(content_type=None))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ScrapeError(f"{url}: {error or type(error).__name__}") from error


def series_of(statistics: Mapping[str, Any]) -> Points:
    """Triton's answer as series of counters. Raises ValueError where it is none."""
    try:
        return [point for model in statistics["model_stats"] for point in _of_version(model)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no statistics of Triton's: {error!r}") from error


def _of_version(model: Mapping[str, Any]) -> Iterator[tuple[SeriesId, float]]:
    labels = {"model": str(model["name"]), "version": str(model["version"])}
    for batch in model.get("batch_stats") or ():
        sized = {**labels, "batch_size": str(int(batch["batch_size"]))}
        yield SeriesId.of(BATCH_EXECUTIONS, sized), float(batch["compute_infer"]["count"])
        yield SeriesId.of(BATCH_SECONDS, sized), float(batch["compute_infer"]["ns"]) / 1e9


@dataclass
class WithStatistics:
    """A source, and beside it the statistics of the pods that have some worth reading."""

    source: Source
    reader: StatisticsReader
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.source.name

    async def collect(self, targets: Sequence[Target], histories: Histories, now: float) -> str:
        """See `Source`. Where statistics cannot be read, what the source itself tells still counts."""
        fault = await self.source.collect(targets, histories, now)
        await self._statistics(targets, histories, now)
        return fault

    async def _statistics(self, targets: Sequence[Target], histories: Histories, now: float) -> None:
        room = asyncio.Semaphore(CONCURRENCY)

        async def read(target: Target) -> tuple[Target, Points]:
            try:
                async with room:
                    return target, await self.reader.statistics(target.statistics_url, target.token)
            except ScrapeError:
                return target, ()

        wanted = [target for target in targets if target.statistics_url]
        for target, points in await asyncio.gather(*(read(target) for target in wanted)):
            if target.pod in histories:
                histories[target.pod].beside(now, points)
