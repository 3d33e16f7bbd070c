"""A small Hugging Face hub: the calls of the real one that a client needs, its error codes, faults on demand."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from mmap import mmap
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

COMMIT = "c" * 40
PIECE = 16 * 1024
PIECES_PER_SECOND = 50
"""At most, where the rate is limited."""
Content = bytes | mmap
"""Of one file; a large one stays on the disk."""


def blob_id(content: Content) -> str:
    """Git's name of a blob."""
    made = hashlib.sha1(f"blob {len(content)}\0".encode(), usedforsecurity=False)
    made.update(content)
    return made.hexdigest()


@cache
def described(name: str, content: Content) -> dict[str, Any]:
    """What the hub says of a file, worked out once."""
    if name.endswith((".safetensors", ".gguf")):
        large = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        return {"rfilename": name, "size": len(content), "blobId": "0" * 40, "lfs": large}  # the id is the pointer's
    return {"rfilename": name, "size": len(content), "blobId": blob_id(content)}


@dataclass
class HubServer:
    """One repository, `owner/model`. What it sent is counted; faults are set by the test."""

    files: Mapping[str, Content]
    token: str | None = None
    gated: bool = False
    revisions: dict[str, str] = field(default_factory=lambda: {"main": COMMIT, COMMIT: COMMIT})
    bytes_per_second: float | None = None
    ranges: bool = True
    break_after: list[int] = field(default_factory=list)
    """For each coming request of content: after how many bytes its connection is cut."""
    spoil: list[str] = field(default_factory=list)
    """Files of which the next request gets wrong content."""
    busy: int = 0
    """Requests that will be answered with 503."""
    sent: int = 0
    asked: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.files.values()))

    @asynccontextmanager
    async def running(
        self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[HubServer]:
        """Serves on a free port of 127.0.0.1, or where it is said."""
        app = web.Application()
        app.router.add_get("/counts", self._counts)
        app.router.add_get("/rate/{bytes_per_second}", self._rate)
        app.router.add_get("/api/models/owner/model/revision/{revision}", self._info)
        app.router.add_get("/owner/model/resolve/{revision}/{file:.+}", self._redirect)
        app.router.add_get("/store/{file:.+}", self._content)
        app.router.add_route("*", "/{rest:.*}", self._unknown)
        server = TestServer(app, host=host, port=port or None, scheme="https" if tls else "http")
        await server.start_server(ssl=tls)
        self.url = str(server.make_url("/")).rstrip("/")
        try:
            yield self
        finally:
            await server.close()

    async def _counts(self, _: web.Request) -> web.Response:
        return web.json_response({"sent": self.sent, "asked": self.asked, "size": self.size})

    async def _rate(self, request: web.Request) -> web.Response:
        self.bytes_per_second = float(request.match_info["bytes_per_second"])
        return web.Response()

    async def _info(self, request: web.Request) -> web.Response:
        if refused := self._refused(request):
            return refused
        siblings = [described(name, content) for name, content in self.files.items()]
        return web.json_response({"sha": self.revisions[request.match_info["revision"]], "siblings": siblings})

    async def _redirect(self, request: web.Request) -> web.Response:
        if refused := self._refused(request):
            return refused
        if request.match_info["file"] not in self.files:
            return web.Response(status=404, headers={"X-Error-Code": "EntryNotFound"})
        return web.Response(status=302, headers={"Location": f"/store/{request.match_info['file']}"})

    async def _content(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["file"]
        self.asked.append(name)
        content = self.files[name]
        if name in self.spoil:
            self.spoil.remove(name)
            content = content[:-1] + bytes([content[-1] ^ 1])
        start = 0
        given = request.headers.get("Range", "")
        if given and self.ranges:
            start = int(given.removeprefix("bytes=").rstrip("-"))
        answer = web.StreamResponse(status=206 if start else 200)
        answer.content_length = len(content) - start
        await answer.prepare(request)
        most = self.break_after.pop(0) if self.break_after else len(content)
        step = max(PIECE, int((self.bytes_per_second or 0) / PIECES_PER_SECOND))
        for at in range(start, len(content), step):
            piece = content[at : at + step]
            if at - start + len(piece) > most:
                assert request.transport is not None
                request.transport.abort()
                break
            await answer.write(piece)
            self.sent += len(piece)
            if self.bytes_per_second:
                await asyncio.sleep(len(piece) / self.bytes_per_second)
        return answer

    async def _unknown(self, request: web.Request) -> web.Response:
        return web.Response(status=404, headers={"X-Error-Code": "RepoNotFound"})

    def _refused(self, request: web.Request) -> web.Response | None:
        if self.busy:
            self.busy -= 1
            return web.Response(status=503)
        given = request.headers.get("Authorization", "")
        if self.token is not None and given != f"Bearer {self.token}":
            if self.gated:
                return web.Response(status=403 if given else 401, headers={"X-Error-Code": "GatedRepo"})
            return web.Response(status=403 if given else 401, headers={"X-Error-Code": "RepoNotFound"})
        if request.match_info["revision"] not in self.revisions:
            return web.Response(status=404, headers={"X-Error-Code": "RevisionNotFound"})
        return None
