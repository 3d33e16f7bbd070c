"""Open-loop load on one service, as a pod of its own runs it: `python3 open_load.py URL MODEL TOKENS PORT`.

Requests come as a Poisson process, whatever became of those before, each over a connection of its own, so that a
Kubernetes Service spreads them. Latencies count from when a request was due. What it does is set over HTTP: `/rate/R`
(requests/s from now on), `/burst/N` (as many at once), `/seen` (every request so far; see `Seen`).
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict, dataclass, field

import aiohttp
from aiohttp import web

TIMEOUT_SECONDS = 150.0


@dataclass
class Seen:
    """What was seen until `now`. Moments are seconds since the program began.

    `requests` were answered: when each was due, and seconds until its answer. `open` are due and not answered. `failed`
    says when, and why.
    """

    now: float = 0.0
    rate: float = 0.0
    open: list[float] = field(default_factory=list)
    requests: list[tuple[float, float]] = field(default_factory=list)
    failed: list[tuple[float, str]] = field(default_factory=list)


class OpenLoad:
    """The load, and what it saw."""

    def __init__(self, url: str, model: str, tokens: int) -> None:
        self._url = f"{url}/v2/models/{model}/generate"
        self._body = {"text_input": "Once upon a time", "max_tokens": tokens, "ignore_eos": True}
        self._tokens = tokens
        self._began = time.monotonic()
        self._changed = asyncio.Event()
        self._random = random.Random(1)
        self._running: dict[asyncio.Task[None], float] = {}
        self._seen = Seen()

    def now(self) -> float:
        return time.monotonic() - self._began

    def set_rate(self, rate: float) -> None:
        self._seen.rate = rate
        self._changed.set()

    def seen(self) -> Seen:
        self._seen.now, self._seen.open = self.now(), sorted(self._running.values())
        return self._seen

    async def run(self) -> None:
        """Sends until it is cancelled."""
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as self._session:
            while True:
                self._changed.clear()
                due = self.now()
                while self._seen.rate > 0 and not self._changed.is_set():
                    due += self._random.expovariate(self._seen.rate)
                    await self._wait(due)
                    if not self._changed.is_set():
                        self.send(due)
                await self._wait(None)

    async def _wait(self, until: float | None) -> None:
        """Until a moment, or until the rate changes."""
        try:
            async with asyncio.timeout(None if until is None else max(0.0, until - self.now())):
                await self._changed.wait()
        except TimeoutError:
            return

    def send(self, due: float) -> None:
        """One request."""
        task = asyncio.create_task(self._ask(due))
        self._running[task] = due
        task.add_done_callback(self._running.pop)

    async def _ask(self, due: float) -> None:
        try:
            async with self._session.post(self._url, json=self._body) as response:
                text = await response.text()
            if response.status != 200:
                raise aiohttp.ClientError(f"HTTP {response.status}: {text[:200]}")
            if json.loads(text)["num_output_tokens"] != self._tokens:
                raise aiohttp.ClientError(f"not {self._tokens} tokens: {text[:200]}")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError) as error:
            self._seen.failed.append((due, f"{type(error).__name__}: {error}"[:300]))
        else:
            self._seen.requests.append((round(due, 3), round(self.now() - due, 4)))


def application(load: OpenLoad) -> web.Application:
    """What sets it and tells what it saw."""

    async def rate(request: web.Request) -> web.Response:
        load.set_rate(float(request.match_info["value"]))
        return web.json_response({"now": load.now()})

    async def burst(request: web.Request) -> web.Response:
        at = load.now()
        for _ in range(int(request.match_info["value"])):
            load.send(at)
        return web.json_response({"now": at})

    async def seen(_: web.Request) -> web.Response:
        return web.json_response(asdict(load.seen()))

    made = web.Application()
    made.add_routes([web.get("/rate/{value}", rate), web.get("/burst/{value}", burst), web.get("/seen", seen)])
    return made


async def main(url: str, model: str, tokens: int, port: int) -> None:
    """Serves and sends until it is killed."""
    load = OpenLoad(url, model, tokens)
    runner = web.AppRunner(application(load), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    await load.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
