"""A repository of a Hugging Face hub, or of a mirror that speaks its protocol.

Two calls: `GET /api/models/REPO/revision/REVISION?blobs=true` answers the commit, and size and checksum of each file
(`lfs.sha256`, else git's blob id); `GET /REPO/resolve/COMMIT/FILE` gives the content, with ranges, by a redirect to a
store. Errors carry the header `X-Error-Code`. Reference: https://huggingface.co/docs/hub/api.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp

from llmservice.weights.errors import BrokenTransferError, ExitCode, WeightsError
from llmservice.weights.listing import Algorithm, Checksum, Listing, RemoteFile, Wanted, credentials_key, of_folders

PUBLIC_HUB: Final = "https://huggingface.co"
PIECE_BYTES: Final = 1 << 20
TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
"""Seconds. Not of the whole: a large file may take an hour, but a minute without a byte is a broken transfer."""


@dataclass
class Hub:
    """One revision of one repository; of it one GGUF file where `file` names it, and `folders` below its top one.

    `token` is None for what everybody may read.
    """

    repo: str
    revision: str
    session: aiohttp.ClientSession
    endpoint: str = PUBLIC_HUB
    token: str | None = None
    file: str | None = None
    folders: tuple[str, ...] = ()
    commit: str = ""
    """What the revision is, once it was listed."""

    @classmethod
    def open(
        cls,
        repo: str,
        revision: str,
        endpoint: str | None,
        token: str | None,
        file: str | None = None,
        folders: tuple[str, ...] = (),
    ) -> Self:
        """With a session of its own, which honours the usual variables of proxies. To be closed."""
        session = aiohttp.ClientSession(timeout=TIMEOUT, trust_env=True, headers={"Accept-Encoding": "identity"})
        return cls(
            repo, revision, session, (endpoint or PUBLIC_HUB).rstrip("/"), (token or "").strip() or None, file, folders
        )

    @property
    def words(self) -> str:
        """The source in words."""
        return f"{self.repo} at {self.revision}"

    @property
    def place(self) -> str:
        """What a moving revision is remembered under."""
        asked = f"{credentials_key(self.token)}{self._of_file}{of_folders(self.folders)}"
        return f"hub {self.endpoint} {self.repo}@{self.revision} {asked}"

    async def list(self) -> Listing:
        """The files that an engine needs, at the commit that the revision is now."""
        url = f"{self.endpoint}/api/models/{self.repo}/revision/{quote(self.revision, safe='')}"
        try:
            async with self.session.get(url, params={"blobs": "true"}, headers=self._headers()) as answer:
                self._check(answer)
                told = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._broken(error) from error
        except ValueError as error:
            raise WeightsError(
                ExitCode.BAD_FORMAT, f"{self.endpoint} does not speak a hub's protocol: check the endpoint"
            ) from error
        wanted = Wanted(f"{self.repo} on the hub", self.file, self.folders)
        for sibling in told.get("siblings") or ():
            wanted.add(_file(sibling))
        self.commit = str(told.get("sha") or self.revision)
        identity = f"hub {self.endpoint} {self.repo}@{self.commit}{self._of_file}"
        return Listing(identity, self.repo.replace("/", "-"), self.commit, wanted.chosen())

    async def read(self, file: RemoteFile, offset: int) -> AsyncIterator[bytes]:
        """The content of `file` from `offset` on. A server that knows no ranges is read over."""
        commit = self.commit or self.revision
        url = f"{self.endpoint}/{self.repo}/resolve/{quote(commit, safe='')}/{quote(file.path)}"
        headers = self._headers() | ({"Range": f"bytes={offset}-"} if offset else {})
        try:
            async with self.session.get(url, headers=headers) as answer:
                self._check(answer)
                skip = offset if answer.status != 206 else 0
                async for piece in answer.content.iter_chunked(PIECE_BYTES):
                    if skip >= len(piece):
                        skip -= len(piece)
                        continue
                    yield piece[skip:]
                    skip = 0
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._broken(error) from error

    async def close(self) -> None:
        """Ends the session."""
        await self.session.close()
        await asyncio.sleep(0)  # lets the transports of TLS end before the loop does

    @property
    def _of_file(self) -> str:
        """What sets files of one repository apart."""
        return f" {self.file}" if self.file else ""

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _check(self, answer: aiohttp.ClientResponse) -> None:
        status, code = answer.status, answer.headers.get("X-Error-Code", "")
        if status < 400:
            return
        if status in (408, 429) or status >= 500:
            raise BrokenTransferError(ExitCode.NETWORK, f"the hub answers {status} for {self.words}")
        if code == "RevisionNotFound":
            raise WeightsError(
                ExitCode.NOT_FOUND,
                f"the hub has no revision {self.revision!r} of {self.repo} (any more): write a commit that it has",
            )
        if code == "EntryNotFound":
            raise WeightsError(ExitCode.NOT_FOUND, f"{answer.url.path} is gone from the hub (404)")
        raise self._refused(status, code)

    def _refused(self, status: int, code: str) -> WeightsError:
        with_token = "the token of tokenSecretRef" if self.token else "a request without a token"
        if code == "GatedRepo":
            remedy = f"accept its terms on the hub with the token's account ({status} for {with_token})"
            return WeightsError(ExitCode.UNAUTHORIZED, f"{self.repo} is gated: {remedy}")
        if status in (401, 403):
            return WeightsError(
                ExitCode.UNAUTHORIZED,
                f"the hub answers {status} to {with_token} for {self.repo}: give one that may read it, "
                "or check the name, for what does not exist looks the same",
            )
        if status == 404:
            return WeightsError(
                ExitCode.NOT_FOUND, f"the hub has no {self.words} (404 for {with_token}): check repo and revision"
            )
        return WeightsError(ExitCode.NETWORK, f"the hub answers {status} for {self.words}")

    def _broken(self, error: Exception) -> WeightsError:
        if isinstance(error, aiohttp.ClientSSLError):
            return WeightsError(
                ExitCode.TLS,
                f"no trusted connection to {self.endpoint}: {error}. For a certificate of your own, mount it by "
                "spec.template and set SSL_CERT_FILE",
            )
        if isinstance(error, aiohttp.InvalidURL):
            return WeightsError(ExitCode.INVALID_SOURCE, f"{self.endpoint} is no address: correct endpoint")
        said = " ".join(str(error).split())[:300] or type(error).__name__
        return BrokenTransferError(ExitCode.NETWORK, f"the hub could not be reached for {self.words}: {said}")


def _file(sibling: dict[str, Any]) -> RemoteFile:
    large = sibling.get("lfs") or {}
    size = int(large.get("size") or sibling.get("size") or 0)
    if large.get("sha256"):
        checksum = Checksum(Algorithm.SHA256, str(large["sha256"]))
    elif sibling.get("blobId"):
        checksum = Checksum(Algorithm.GIT_SHA1, str(sibling["blobId"]))
    else:
        checksum = None
    return RemoteFile(str(sibling["rfilename"]), size, checksum)
