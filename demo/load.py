"""Closed-loop load on one model over HTTP: python -m demo.load URL MODEL --streams N --seconds S."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass, field

import aiohttp


@dataclass
class Tally:
    """What a load run saw. A stream is short when it gave fewer tokens than asked for."""

    answered: int = 0
    failed: int = 0
    short: int = 0
    tokens: int = 0
    errors: list[str] = field(default_factory=list)

    def line(self, seconds: float) -> str:
        """One line for people."""
        counts = f"{self.answered} answers, {self.failed} failed, {self.short} shortened"
        return f"{counts}, {self.tokens / seconds:.0f} tokens/s"


async def one_request(session: aiohttp.ClientSession, url: str, tokens: int, tally: Tally) -> None:
    """Streams one answer of exactly `tokens` tokens and counts what arrived."""
    body = {"text_input": "Once upon a time", "stream": True, "max_tokens": tokens, "ignore_eos": True}
    received = 0
    try:
        async with session.post(url, json=body) as response:
            if response.status != 200:
                raise aiohttp.ClientError(f"HTTP {response.status}: {(await response.text())[:200]}")
            async for line in response.content:
                if line.startswith(b"data:"):
                    event = json.loads(line[5:])
                    if "error" in event:
                        raise aiohttp.ClientError(str(event["error"]))
                    ids = event.get("token_ids", [])
                    received += len(ids) if isinstance(ids, list) else 1
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        tally.failed += 1
        tally.errors.append(f"{type(error).__name__}: {error}"[:200])
        return
    tally.answered += 1
    tally.tokens += received
    tally.short += received < tokens


async def run_load(base_url: str, model: str, *, streams: int, seconds: float, tokens: int) -> Tally:
    """`streams` closed-loop clients for `seconds`; the last answers are waited for."""
    tally = Tally()
    url = f"{base_url}/v2/models/{model}/generate_stream"
    deadline = time.monotonic() + seconds

    async def client(session: aiohttp.ClientSession) -> None:
        while time.monotonic() < deadline:
            await one_request(session, url, tokens, tally)

    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(client(session) for _ in range(streams)))
    return tally


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tokens", type=int, default=24)
    options = parser.parse_args()
    started = time.monotonic()
    load = run_load(options.url, options.model, streams=options.streams, seconds=options.seconds, tokens=options.tokens)
    try:
        tally = asyncio.run(load)
    except KeyboardInterrupt:  # Ctrl-C reaches the whole demo, which says what it does about it
        sys.exit(130)
    print(tally.line(time.monotonic() - started))
    for error in tally.errors[:3]:
        print(f"  {error}")


if __name__ == "__main__":
    main()
