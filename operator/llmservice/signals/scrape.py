"""One pod's metrics endpoint, read directly and reduced to what the columns and the gate's drain need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp

from llmservice.signals.page import Page

PENDING: Final = "nv_inference_pending_request_count"
HELD: Final = "llm_gate_held_requests"
TIME_TO_FIRST_TOKEN: Final = "llm_time_to_first_token_seconds"  # noqa: S105 - a metric's name
TOKENS: Final = "llm_engine_tokens_total"
RUNNING: Final = "llm_engine_running_sequences"
GENERATED: Final = "generated"
SCRAPE_SECONDS: Final = 3.0
LONGEST_PAGE: Final = 8 << 20
"""Bytes. A page of Triton's has some 100 KB; an image of somebody else's might send without end."""


@dataclass(frozen=True)
class Sample:
    """What one pod said at one moment. `first_tokens` are cumulative counts by the upper end of their bucket."""

    waiting: float | None
    generated_tokens: float | None
    first_tokens: Mapping[float, float]
    gate_processes: int = 0
    running: float | None = None


class ScrapeError(RuntimeError):
    """The pod's metrics could not be read."""


def parse(text: str, service: str) -> Sample:
    """The sample in a metrics page, for the gate `service` and its engine. What is not on the page is None."""
    return sample_of(Page.parse(text), service)


def sample_of(page: Page, service: str) -> Sample:
    """The sample in a page that was read."""
    pending: list[float] = []
    held: list[float] = []
    tokens: list[float] = []
    buckets: dict[float, float] = {}
    gates: set[str] = set()
    running: list[float] = []
    for series, value in page.series:
        mine = series.label("model") in ("", service)
        if series.name == PENDING and series.label("model") == service:
            pending.append(value)
        elif series.name == HELD and mine:
            held.append(value)
            gates.add(series.label("instance"))
        elif series.name == RUNNING:
            running.append(value)
        elif series.name == TOKENS and series.label("kind") == GENERATED:
            tokens.append(value)
        elif series.name == f"{TIME_TO_FIRST_TOKEN}_bucket" and mine:
            end = float(series.label("le"))
            buckets[end] = buckets.get(end, 0.0) + value
    return Sample(
        waiting=sum(pending) + sum(held) if pending else None,
        generated_tokens=sum(tokens) if tokens else None,
        first_tokens=buckets,
        gate_processes=len(gates),
        running=sum(running) if running else None,
    )


class Scraper:
    """Reads metrics pages over one HTTP session."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def read(self, url: str, service: str) -> Sample:
        """The sample at `url`. Raises ScrapeError."""
        page = await self.page(url)
        try:
            return sample_of(page, service)
        except ValueError as error:
            raise ScrapeError(f"{url}: {error}") from error

    async def page(self, url: str) -> Page:
        """The page at `url`. Raises ScrapeError when the pod does not answer in time, endlessly, or with nonsense."""
        timeout = aiohttp.ClientTimeout(total=SCRAPE_SECONDS)
        try:
            async with self._session.get(url, timeout=timeout) as answer:
                answer.raise_for_status()
                return Page.parse(await _text(answer))
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
            raise ScrapeError(f"{url}: {error or type(error).__name__}") from error


async def _text(answer: aiohttp.ClientResponse) -> str:
    """The whole page. Raises ValueError for one longer than `LONGEST_PAGE`."""
    page = bytearray()
    async for piece in answer.content.iter_any():
        page += piece
        if len(page) > LONGEST_PAGE:
            raise ValueError(f"a metrics page of more than {LONGEST_PAGE >> 20} MiB")
    return page.decode()
