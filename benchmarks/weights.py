"""How often weights come, and how fast they are read: `python -m benchmarks.weights`, with `QUICK=1` for fewer rounds.

The weights step of a pod, as a program of its own, against a hub on this host that counts what it sends. Only content
counts; the hub's listing is asked for at each start.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.figures import Figures, Size, size
from benchmarks.weights_loading import measure_loading
from tests.weights.hub_server import HubServer
from tests.weights.program import Program
from tests.weights.small_model import small_model

KILLS: Final = {Size.FULL: 10, Size.QUICK: 10, Size.SMOKE: 2}
SHARDS: Final = 3
SHARD_BYTES: Final = {Size.FULL: 100_000_000, Size.QUICK: 25_000_000, Size.SMOKE: 5_000_000}
SECONDS: Final = {Size.FULL: 30.0, Size.QUICK: 12.0, Size.SMOKE: 4.0}
"""How long the hub takes for a shard, so that the kills fall into the transfer."""
WAIT_SECONDS: Final = 120.0


def source(hub: HubServer) -> dict[str, Mapping[str, str]]:
    """`spec.model.source` of the model of `hub`."""
    return {"huggingFace": {"repo": "owner/model", "endpoint": hub.url}}


async def killed(hub: HubServer, folder: Path, figures: Figures) -> None:
    """Kills the step again and again, each time a part of the model later, and lets the last one end."""
    program, kills = Program(source(hub), folder), KILLS[size()]
    halves = 0
    for kill in range(1, kills + 1):
        process = await program.start()
        await sent(hub, kill * hub.size / (kills + 2), process)
        process.kill()
        await process.wait()
        whole = (path for path in program.cache.glob("entries/*/files/*"))
        halves += sum(path.stat().st_size != len(hub.files[path.name]) for path in whole)
    code, _ = await program.run()
    figures.add("download_kills", kills, "kills")
    figures.add("download_killed_bytes_over_size", hub.sent / hub.size, "ratio", 1.1)
    figures.add("download_files_wrong_or_half", halves + wrong(program, hub, code), "files", 0)


async def again(hub: HubServer, folder: Path, figures: Figures) -> None:
    """Another pod of the same node: what it downloads, and what it says itself."""
    before = hub.sent
    code, _ = await Program(source(hub), folder, options=("--pod", "second")).run()
    figures.add("second_start_bytes", hub.sent - before if code == 0 else hub.size, "bytes", 0)


async def damaged(hub: HubServer, folder: Path, figures: Figures) -> None:
    """A file that changed on the disk is fetched again, and nothing else."""
    program, before = Program(source(hub), folder), hub.sent
    victim = max(program.cache.glob("entries/*/files/*.safetensors"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    code, _ = await program.run()
    figures.add("repair_bytes_over_file", (hub.sent - before) / len(hub.files[victim.name]), "ratio", 1)
    figures.add("repair_files_wrong", wrong(program, hub, code), "files", 0)


async def together(hub: HubServer, folder: Path, figures: Figures) -> None:
    """Four pods that start at once on an empty node."""
    hub.sent = 0
    pods = [Program(source(hub), folder, options=("--pod", f"pod-{number}")) for number in range(4)]
    ends = await asyncio.gather(*(pod.run() for pod in pods))
    bad = sum(wrong(pod, hub, code) for pod, (code, _) in zip(pods, ends, strict=True))
    figures.add("four_starts_bytes_over_size", hub.sent / hub.size, "ratio", 1)
    figures.add("four_starts_files_wrong", bad, "files", 0)


def wrong(program: Program, hub: HubServer, code: int) -> int:
    """Files that the engine would not see as the hub has them; all of them where the step failed."""
    if code:
        return len(hub.files)
    seen = program.seen()
    return sum(seen.get(name) != content for name, content in hub.files.items())


async def sent(hub: HubServer, count: float, process: asyncio.subprocess.Process) -> None:
    """Returns once the hub has sent `count` bytes. Raises TimeoutError, and RuntimeError where the step ends before."""
    async with asyncio.timeout(WAIT_SECONDS):
        while hub.sent < count:
            if process.returncode is not None:
                raise RuntimeError("the weights step ended before it could be killed")
            await asyncio.sleep(0.01)


async def download(figures: Figures) -> None:
    """All that is about the network."""
    files = small_model(SHARDS, SHARD_BYTES[size()])
    slow = SHARD_BYTES[size()] / SECONDS[size()]
    with tempfile.TemporaryDirectory() as name:
        async with HubServer(files, bytes_per_second=slow).running() as hub:
            await killed(hub, Path(name) / "killed", figures)
            hub.bytes_per_second = None
            for part in (again, damaged):
                await part(hub, Path(name) / "killed", figures)
            await together(hub, Path(name) / "together", figures)


def main() -> int:
    """Measures and prints."""
    figures = Figures("weights")
    try:
        asyncio.run(download(figures))
        measure_loading(figures)
    finally:
        figures.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
