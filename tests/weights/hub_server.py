"""A small Hugging Face hub: the calls of the real one that a client needs, its error codes, faults on demand."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

COMMIT = "c" * 40
PIECE = 16 * 1024


def blob_id(content: bytes) -> str:
    """Git's name of a blob."""
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


@dataclass
class HubServer:
    """One repository, `owner/model`. What it sent is counted; faults are set by the test."""

    files: dict[str, bytes]
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
    async def running(self) -> AsyncIterator[HubServer]:
        """Serves on a free port of 127.0.0.1."""
        app = web.Application()
        app.router.add_get("/api/models/owner/model/revision/{revision}", self._info)
        app.router.add_get("/owner/model/resolve/{revision}/{file}", self._redirect)
        app.router.add_get("/store/{file}", self._content)
        app.router.add_route("*", "/{rest:.*}", self._unknown)
        server = TestServer(app, host="127.0.0.1")
        await server.start_server()
        self.url = str(server.make_url("/")).rstrip("/")
        try:
            yield self
        finally:
            await server.close()

    async def _info(self, request: web.Request) -> web.Response:
        if refused := self._refused(request):
            return refused
        siblings = []
        for name, content in self.files.items():
            described: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": blob_id(content)}
            if name.endswith(".safetensors"):
                described["blobId"] = "0" * 40  # of the pointer, not of the content
                described["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            siblings.append(described)
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
        for at in range(start, len(content), PIECE):
            piece = content[at : at + PIECE]
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
