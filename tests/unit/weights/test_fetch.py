"""Fetching into a cache: whole or not at all, once, resumed, checked, repaired; and who may have what."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
from pathlib import Path

import pytest

from llmservice.weights.entry import Verify
from llmservice.weights.errors import BrokenTransferError, ExitCode, WeightsError
from llmservice.weights.fetch import CachePolicy, Fetched, fetch
from llmservice.weights.hub import Hub
from llmservice.weights.links import link
from llmservice.weights.progress import Progress
from tests.unit.weights.fetching import client, fetched, read
from tests.weights.hub_server import COMMIT, HubServer
from tests.weights.small_model import small_model

pytestmark = pytest.mark.unit


async def test_a_second_start_fetches_nothing(hub: HubServer, tmp_path: Path) -> None:
    await fetched(hub, tmp_path)
    sent = hub.sent
    again = await fetched(hub, tmp_path)
    assert (hub.sent, again.transferred) == (sent, 0)


async def test_a_tag_and_its_commit_are_one_model(hub: HubServer, tmp_path: Path) -> None:
    first = await fetched(hub, tmp_path)
    second = await fetched(hub, tmp_path, COMMIT)
    assert second.entry == first.entry
    assert second.transferred == 0


async def test_two_that_start_together_fetch_once(hub: HubServer, tmp_path: Path) -> None:
    """Two processes on one node: a lock between threads of one process would prove nothing less, for flock is per
    open file."""
    found = await asyncio.gather(fetched(hub, tmp_path), asyncio.to_thread(_in_a_loop_of_its_own, hub, tmp_path))
    assert sum(one.transferred for one in found) == found[0].size


def _in_a_loop_of_its_own(hub: HubServer, cache: Path) -> Fetched:
    return asyncio.run(fetched(hub, cache))


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_broken_transfer_goes_on_where_it_stopped(hub: HubServer, tmp_path: Path, ranges: bool) -> None:
    hub.ranges = ranges
    hub.break_after = [100_000_000, 100_000_000, 150_000, 200_000]
    found = await fetched(hub, tmp_path)
    assert read(found.entry) == small_model()
    if ranges:
        assert hub.sent <= 1.1 * found.size


async def test_a_run_that_failed_is_resumed_by_the_next(hub: HubServer, tmp_path: Path) -> None:
    hub.break_after = [100_000_000, *[0] * 100]
    with pytest.raises(BrokenTransferError, match=r"broke off|could not be reached"):
        await fetched(hub, tmp_path)
    assert not any((tmp_path / "entries").glob("*/files/*.safetensors"))
    hub.break_after = []
    assert read((await fetched(hub, tmp_path)).entry) == small_model()


async def test_wrong_content_is_fetched_again_once(hub: HubServer, tmp_path: Path) -> None:
    hub.spoil = ["model-1-of-2.safetensors", "config.json"]
    assert read((await fetched(hub, tmp_path)).entry) == small_model()


async def test_wrong_content_twice_is_an_error_and_never_visible(hub: HubServer, tmp_path: Path) -> None:
    hub.spoil = ["model-1-of-2.safetensors"] * 2
    with pytest.raises(WeightsError, match=r"model-1-of-2\.safetensors .* sha256 .* twice in a row") as caught:
        await fetched(hub, tmp_path)
    assert caught.value.code is ExitCode.CORRUPT
    assert not any((tmp_path / "entries").glob("*/files/model-1-of-2.safetensors"))


@pytest.mark.parametrize("harm", ["changed", "cut", "gone"])
async def test_a_damaged_file_is_found_and_alone_repaired(hub: HubServer, tmp_path: Path, harm: str) -> None:
    entry = (await fetched(hub, tmp_path)).entry
    victim = entry.files / "model-1-of-2.safetensors"
    content = victim.read_bytes()
    if harm == "gone":
        victim.unlink()
    else:
        victim.write_bytes(content[:-1] + b"?" if harm == "changed" else content[:1000])
    again = await fetched(hub, tmp_path)
    assert again.repaired == ("model-1-of-2.safetensors",)
    assert again.transferred == len(content)
    assert read(entry) == small_model()


async def test_silent_damage_is_found_when_every_file_is_read(hub: HubServer, tmp_path: Path) -> None:
    entry = (await fetched(hub, tmp_path)).entry
    victim = entry.files / "model-2-of-2.safetensors"
    before = victim.stat()
    with victim.open("r+b") as file:
        file.seek(5000)
        file.write(b"\0")
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await fetched(hub, tmp_path)).repaired == ()
    assert (await fetched(hub, tmp_path, verify=Verify.ALWAYS)).repaired == (victim.name,)
    assert read(entry) == small_model()


async def test_files_read_a_week_ago_are_read_again(hub: HubServer, tmp_path: Path) -> None:
    entry = (await fetched(hub, tmp_path)).entry
    record = entry.folder / "entry.json"
    long_ago = record.stat().st_mtime - 8 * 24 * 3600
    os.utime(record, (long_ago, long_ago))
    await fetched(hub, tmp_path)
    assert record.stat().st_mtime > long_ago + 3600


async def test_a_cache_without_its_record_is_checked_and_kept(hub: HubServer, tmp_path: Path) -> None:
    entry = (await fetched(hub, tmp_path)).entry
    (entry.folder / "entry.json").unlink()
    assert (await fetched(hub, tmp_path)).transferred == 0


async def test_a_token_without_access_gets_nothing_of_what_another_fetched(hub: HubServer, tmp_path: Path) -> None:
    hub.token = "good"
    await fetched(hub, tmp_path, token="good")
    for token, said in ((None, "a request without a token"), ("bad", "the token of tokenSecretRef")):
        with pytest.raises(WeightsError, match=rf"40[13] to {said} for owner/model") as caught:
            await fetched(hub, tmp_path, token=token)
        assert caught.value.code is ExitCode.UNAUTHORIZED


async def test_a_token_that_ends_with_a_line_break_is_the_same_token(hub: HubServer, tmp_path: Path) -> None:
    hub.token = "good"
    assert (await fetched(hub, tmp_path, token="good\n")).transferred


async def test_a_gated_repository_says_that_terms_are_to_be_accepted(hub: HubServer, tmp_path: Path) -> None:
    hub.token, hub.gated = "good", True
    with pytest.raises(WeightsError, match=r"owner/model is gated: accept its terms"):
        await fetched(hub, tmp_path, token="other")


async def test_a_revision_that_is_gone_is_said(hub: HubServer, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"no revision 'v9' of owner/model \(any more\)") as caught:
        await fetched(hub, tmp_path, "v9")
    assert caught.value.code is ExitCode.NOT_FOUND


async def test_a_repository_that_is_not_there_is_said(hub: HubServer, tmp_path: Path) -> None:
    opened = Hub.open("owner/other", "main", hub.url, None)
    with pytest.raises(WeightsError, match=r"no owner/other at main \(404"):
        await fetch(opened, tmp_path, CachePolicy(), Progress(io.StringIO()))
    await opened.close()


async def test_a_busy_hub_is_asked_again(hub: HubServer, tmp_path: Path) -> None:
    hub.busy = 3
    assert (await fetched(hub, tmp_path)).size


async def test_a_hub_that_is_away_is_said(tmp_path: Path) -> None:
    async with HubServer(small_model()).running() as hub:
        pass
    with pytest.raises(WeightsError, match="could not be reached") as caught:
        await fetched(hub, tmp_path)
    assert caught.value.code is ExitCode.NETWORK


async def test_without_the_hub_the_same_credentials_are_served_from_the_cache(tmp_path: Path) -> None:
    async with HubServer(small_model(), token="good").running() as hub:
        await fetched(hub, tmp_path, token="good")
    found = await fetched(hub, tmp_path, token="good")
    assert read(found.entry) == small_model()
    assert "could not be reached" in found.offline
    with pytest.raises(WeightsError, match="could not be reached"):
        await fetched(hub, tmp_path, token="another")


async def test_what_came_without_a_folder_does_not_serve_who_asks_for_it_while_the_hub_is_away(tmp_path: Path) -> None:
    async with HubServer(small_model()).running() as hub:
        await fetched(hub, tmp_path)
    with pytest.raises(WeightsError, match="could not be reached"):
        await fetched(hub, tmp_path, folders=("adapters/sql",))


async def test_what_does_not_speak_a_hubs_protocol_is_said(tmp_path: Path) -> None:
    server = await asyncio.start_server(_hello, "127.0.0.1", 0)
    async with server:
        opened = Hub.open("owner/model", "main", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None)
        with pytest.raises(WeightsError, match="does not speak a hub's protocol"):
            await opened.list()
        await opened.close()


async def _hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello")
    await writer.drain()
    writer.close()


async def test_links_follow_the_model_and_old_ones_go(hub: HubServer, tmp_path: Path) -> None:
    found = await fetched(hub, tmp_path / "cache")
    target = tmp_path / "models"
    target.mkdir()
    (target / "old.safetensors").symlink_to(tmp_path)
    (target / "of-somebody-else").write_text("")
    link(found.entry.files, target)
    link(found.entry.files, target)
    assert {path.name for path in target.iterdir()} == {*small_model(), "of-somebody-else"}
    assert (target / "config.json").read_bytes() == small_model()["config.json"]


async def test_progress_tells_percent_rate_and_what_is_left(hub: HubServer, tmp_path: Path) -> None:
    hub.bytes_per_second = 400_000
    out, ticks = io.StringIO(), iter(range(1, 10_000))
    async with client(hub) as opened:
        await fetch(opened, tmp_path, CachePolicy(), Progress(out, clock=lambda: next(ticks) * 0.6))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    download = [line for line in lines if line["phase"] == "download"]
    assert lines[0]["phase"] == "list"
    assert all(line["total_bytes"] == sum(map(len, small_model().values())) for line in download)
    assert any(line["bytes_per_second"] and line["eta_seconds"] is not None for line in download)
    assert threading.active_count() < 50
