"""A metrics page over HTTP: read whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from llmservice.signals import scrape
from llmservice.signals.scrape import ScrapeError, Scraper

pytestmark = pytest.mark.unit

PAGE = 'nv_inference_pending_request_count{model="chat",version="1"} 3\n'


@asynccontextmanager
async def pod(body: str, status: int = 200) -> AsyncIterator[tuple[Scraper, str]]:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=body, status=status)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        yield Scraper(session), str(server.make_url("/metrics"))


async def test_a_page_is_read() -> None:
    async with pod(PAGE) as (scraper, url):
        assert (await scraper.read(url, "chat")).waiting == 3


@pytest.mark.parametrize(("body", "status"), [("", 503), ("{", 200), (PAGE * 100, 200)], ids=["503", "junk", "long"])
async def test_what_cannot_be_read_is_one_error(monkeypatch: pytest.MonkeyPatch, body: str, status: int) -> None:
    monkeypatch.setattr(scrape, "LONGEST_PAGE", 1000)
    async with pod(body, status) as (scraper, url):
        with pytest.raises(ScrapeError, match="/metrics"):
            await scraper.read(url, "chat")
