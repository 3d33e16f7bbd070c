"""Buckets: the causes of failure, ETags that are no checksums, and Google's protocol."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from llmservice.api.model import S3Source
from llmservice.weights.bucket import Bucket, open_gcs, open_s3
from llmservice.weights.errors import BrokenTransferError, ExitCode, WeightsError
from llmservice.weights.fetch import CachePolicy, Fetched, fetch
from llmservice.weights.progress import Progress
from tests.weights.small_model import small_model

pytestmark = pytest.mark.unit

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
Answers = dict[str, object]
ENTRY = "<Contents><Key>llama/{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
REST = '<ETag>"{etag}"</ETag><Size>{size}</Size></Contents>'


@pytest.fixture
async def bucket_server() -> AsyncIterator[tuple[str, Answers]]:
    """The XML protocol that S3 and Google share. `answers` says how: files, status, and `salt` that spoils ETags."""
    answers: Answers = {"files": small_model(), "status": 200, "salt": b"", "asked": []}

    def etag(content: bytes) -> str:
        return hashlib.md5(content + bytes(answers["salt"])).hexdigest()  # type: ignore[call-overload]

    async def serve(request: web.Request) -> web.Response:
        files: dict[str, bytes] = answers["files"]  # type: ignore[assignment]
        if answers["status"] != 200:
            text = "<Error><Code>X</Code><Message>you may not</Message></Error>"
            return web.Response(status=int(str(answers["status"])), text=text)
        if "list-type" in request.query:
            entries = [
                ENTRY.format(name=name) + REST.format(etag=etag(content), size=len(content))
                for name, content in files.items()
            ]
            inside = "<IsTruncated>false</IsTruncated>" + "".join(entries)
            return web.Response(text=f"<ListBucketResult>{inside}</ListBucketResult>", content_type="application/xml")
        name = request.path.rpartition("/")[2]
        answers["asked"].append(name)  # type: ignore[attr-defined]
        headers = {"ETag": f'"{etag(files[name])}"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        return web.Response(body=files[name], headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", serve)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    yield str(server.make_url("/")).rstrip("/"), answers
    await server.close()


def s3(address: str) -> Bucket:
    return open_s3(source(address), KEYS)


def source(address: str, secret: str | None = None) -> S3Source:
    return S3Source(bucket="models", prefix="llama/", endpoint=address, credentials_secret=secret)


def gcs(address: str) -> Bucket:
    key = {"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return open_gcs("models", "llama", json.dumps(key))


async def fetched(bucket: Bucket, cache: Path) -> Fetched:
    return await fetch(bucket, cache, CachePolicy(), Progress(io.StringIO()), pause_seconds=0.001)


@pytest.mark.parametrize("kind", [s3, gcs])
async def test_a_bucket_of_each_kind_is_read(bucket_server: tuple[str, Answers], tmp_path: Path, kind: type) -> None:
    address, _ = bucket_server
    found = await fetched(kind(address), tmp_path)
    assert {path.name: path.read_bytes() for path in found.entry.files.iterdir()} == small_model()
    assert (await fetched(kind(address), tmp_path)).transferred == 0


async def test_etags_that_are_no_md5_are_learnt_from_the_smallest_file(
    bucket_server: tuple[str, Answers], tmp_path: Path
) -> None:
    address, answers = bucket_server
    answers["salt"] = b"encrypted"
    found = await fetched(s3(address), tmp_path)
    assert {path.name: path.read_bytes() for path in found.entry.files.iterdir()} == small_model()
    assert sorted(answers["asked"]) == sorted([*small_model(), "tokenizer.json"])  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (403, ExitCode.UNAUTHORIZED, r"may not be read \(you may not\): check credentialsSecret"),
        (401, ExitCode.UNAUTHORIZED, "may not be read"),
        (404, ExitCode.NOT_FOUND, r"there is no s3://models/llama \(404"),
    ],
)
async def test_a_refusal_names_its_cause(
    bucket_server: tuple[str, Answers], tmp_path: Path, status: int, code: ExitCode, says: str
) -> None:
    address, answers = bucket_server
    answers["status"] = status
    with pytest.raises(WeightsError, match=says) as caught:
        await fetched(s3(address), tmp_path)
    assert caught.value.code is code


def test_a_key_that_is_none_is_said() -> None:
    with pytest.raises(WeightsError, match="holds no service account key in JSON"):
        open_gcs("models", "", "no json")


@pytest.mark.parametrize("given", [{}, {"AWS_ACCESS_KEY_ID": "a"}, {"accessKey": "a", "secretKey": "b"}])
def test_a_secret_without_its_keys_does_not_pass_for_none(given: dict[str, str]) -> None:
    with pytest.raises(
        WeightsError, match=r"Secret 's3' of credentialsSecret has no .*AWS_SECRET_ACCESS_KEY"
    ) as caught:
        open_s3(source("http://127.0.0.1:9", "s3"), given)
    assert caught.value.code is ExitCode.UNAUTHORIZED


async def test_keys_that_end_with_a_line_break_are_the_same_keys(
    bucket_server: tuple[str, Answers], tmp_path: Path
) -> None:
    address, _ = bucket_server
    broken = open_s3(source(address, "s3"), {name: f"{value}\n" for name, value in KEYS.items()})
    assert (await fetched(broken, tmp_path)).transferred
    assert broken.place == s3(address).place


@pytest.mark.parametrize("said", ["status code: 403 Forbidden", "error sending request"])
def test_a_node_that_knows_no_identity_is_told_as_missing_credentials(said: str) -> None:
    error = OSError(f"Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 4 s - {said}")
    cause = s3("http://127.0.0.1:9")._cause(error)
    assert cause.code is ExitCode.UNAUTHORIZED
    assert not isinstance(cause, BrokenTransferError)
    assert "no credentials for s3://models/llama" in str(cause)
    assert "name a Secret in credentialsSecret" in str(cause)
