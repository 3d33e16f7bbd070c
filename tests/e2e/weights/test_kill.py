"""The weights step, killed again and again, on a hub that is slow: little comes twice, nothing half is ever seen."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.weights.hub_server import HubServer
from tests.weights.program import Program
from tests.weights.small_model import small_model

pytestmark = pytest.mark.e2e

KILLS = 10
BYTES_PER_SECOND = 3_000_000.0
"""Of each file; slow enough that the kills fall into the transfer on any machine."""


async def test_ten_kills_cost_at_most_a_tenth(tmp_path: Path) -> None:
    files = small_model(shards=3, shard_bytes=25_000_000)
    async with HubServer(files, bytes_per_second=BYTES_PER_SECOND).running() as hub:
        program = Program({"huggingFace": {"repo": "owner/model", "endpoint": hub.url}}, tmp_path)
        for kill in range(1, KILLS + 1):
            process = await program.start()
            await _sent(hub, kill * hub.size / (KILLS + 2), process)
            process.kill()
            await process.wait()
            whole = {path.name: path.read_bytes() for path in program.cache.glob("entries/*/files/*")}
            assert all(files[name] == content for name, content in whole.items())
            assert not program.target.exists()
        code, lines = await program.run()
        assert (code, program.seen()) == (0, files)
        assert lines[-1]["phase"] == "done"
        assert hub.sent / hub.size <= 1.1
        sent = hub.sent
        assert await program.run() == (0, [{**lines[0]}, {**lines[-1]}])
        assert hub.sent == sent


async def _sent(hub: HubServer, count: float, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(120):
        while hub.sent < count:
            assert process.returncode is None, "it ended before it could be killed"
            await asyncio.sleep(0.01)


async def test_two_services_share_a_cache_and_one_is_deleted_while_it_fetches(tmp_path: Path) -> None:
    files = small_model(shards=2, shard_bytes=12_000_000)
    async with HubServer(files, bytes_per_second=2_000_000).running() as hub:
        source = {"huggingFace": {"repo": "owner/model", "endpoint": hub.url}}
        one = Program(source, tmp_path, options=("--pod", "one"))
        other = Program(source, tmp_path, options=("--pod", "other"))
        first = await one.start()
        await _sent(hub, 1_000_000, first)
        second = await other.start()
        assert second.stdout is not None
        async with asyncio.timeout(120):
            while json.loads(await second.stdout.readline())["phase"] != "wait":
                assert first.returncode is None
        first.kill()
        await first.wait()
        await second.communicate()
        assert (second.returncode, other.seen()) == (0, files)
        assert hub.sent / hub.size <= 1.1
