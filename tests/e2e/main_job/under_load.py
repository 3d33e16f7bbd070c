"""Load on a service while a test does something to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from demo.load import Tally, run_load


@contextmanager
def loaded(port: int, model: str, seconds: float, streams: int = 8) -> Iterator[Tally]:
    """Streams for `seconds`, or as long as the block takes if that is longer; the tally is whole after the block."""
    seen, tally, ended = [Tally()], Tally(), threading.Event()
    url = f"http://127.0.0.1:{port}"

    def run() -> None:
        while True:
            seen.append(asyncio.run(run_load(url, model, streams=streams, seconds=seconds, tokens=24)))
            if ended.is_set():
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield tally
    finally:
        ended.set()
        thread.join(timeout=120)
        assert not thread.is_alive(), "the load did not end"
        for one in seen:
            tally.answered += one.answered
            tally.failed += one.failed
            tally.short += one.short
            tally.tokens += one.tokens
            tally.errors += one.errors
