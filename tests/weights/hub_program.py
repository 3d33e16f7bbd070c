"""Several hubs in one process, as a pod of the tests runs them: `python3 -m tests.weights.hub_program DESCRIPTION`.

The description is a JSON list, one object a hub: `port`, either `folder` (of a model) or `shard_bytes` and `seed` (of
one that is none), and optionally `token`, `bytes_per_second` (of each file) and `tls` (a folder with tls.crt, tls.key).
"""

from __future__ import annotations

import asyncio
import json
import mmap
import ssl
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.weights.hub_server import Content, HubServer, described
from tests.weights.small_model import small_model


def main(hubs: list[dict[str, Any]]) -> None:
    """Serves until it is killed."""
    asyncio.run(_serve(hubs))


async def _serve(hubs: list[dict[str, Any]]) -> None:
    async with AsyncExitStack() as running:
        for said in hubs:
            hub = HubServer(_files(said), token=said.get("token"), bytes_per_second=said.get("bytes_per_second"))
            for name, content in hub.files.items():
                described(name, content)  # before somebody waits for it
            await running.enter_async_context(hub.running("0.0.0.0", said["port"], _tls(said)))
        print("serving", flush=True)  # noqa: T201
        await asyncio.Event().wait()


def _files(said: dict[str, Any]) -> dict[str, Content]:
    if "folder" not in said:
        return dict(small_model(shards=1, shard_bytes=said["shard_bytes"], seed=said["seed"]))
    found = (path for path in Path(said["folder"]).iterdir() if path.is_file() and not path.name.startswith("."))
    return {path.name: _mapped(path) for path in found if path.stat().st_size}


def _mapped(path: Path) -> Content:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _tls(said: dict[str, Any]) -> ssl.SSLContext | None:
    if "tls" not in said:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(Path(said["tls"]) / "tls.crt", Path(said["tls"]) / "tls.key")
    return context


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
