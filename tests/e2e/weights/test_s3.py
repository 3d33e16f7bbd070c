"""Weights from a real S3 server (moto's), by the program that pods run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from obstore.store import S3Store

from tests.weights.program import Program
from tests.weights.small_model import small_model

pytestmark = pytest.mark.e2e

PYTHON = Path(__file__).parents[3] / ".venv-s3" / "bin" / "python"
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture
async def s3() -> AsyncIterator[str]:
    """The address of the server, which has an empty bucket `models`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(PYTHON), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        address = f"http://127.0.0.1:{port}"
        await _answers(f"{address}/models", process)
        yield address
    finally:
        process.kill()
        await process.wait()


async def _answers(url: str, process: asyncio.subprocess.Process) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(120):
        while True:
            assert process.returncode is None, "the S3 server ended: `make e2e` installs it"
            try:
                async with session.put(url) as answer:
                    assert answer.status == 200
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)


def store(address: str) -> S3Store:
    return S3Store(
        "models", endpoint=address, region="us-east-1", access_key_id="tester", secret_access_key="secret",
        client_options={"allow_http": True},
    )  # fmt: skip


async def put(address: str, files: dict[str, bytes], below: str = "llama/") -> None:
    for name, content in files.items():
        await store(address).put_async(below + name, content)


def program(address: str, folder: Path, **source: Any) -> Program:
    said = {"bucket": "models", "prefix": "llama", "endpoint": address} | source
    return Program({"s3": said}, folder, KEYS)


async def test_a_model_comes_once_and_what_changed_comes_alone(s3: str, tmp_path: Path) -> None:
    files = small_model()
    await put(s3, files | {"deeper/other.json": b"{}", "README.md": b"#"})
    asked = program(s3, tmp_path)
    assert (await asked.run())[0] == 0
    assert asked.seen() == files
    assert [line["phase"] for line in (await asked.run())[1]] == ["list", "done"]

    files["config.json"] = json.dumps({**json.loads(files["config.json"]), "vocab_size": 1001}).encode()
    await put(s3, {"config.json": files["config.json"]})
    assert (await asked.run())[0] == 0
    assert asked.seen() == files


async def test_an_etag_of_several_parts_is_no_checksum(s3: str, tmp_path: Path) -> None:
    files = small_model(shards=1, shard_bytes=12_000_000)
    await store(s3).put_async("llama/model-1-of-1.safetensors", files["model-1-of-1.safetensors"], chunk_size=5 * 2**20)
    rest = {name: content for name, content in files.items() if not name.endswith(".safetensors")}
    await put(s3, rest)
    found = await store(s3).head_async("llama/model-1-of-1.safetensors")
    assert hashlib.md5(files["model-1-of-1.safetensors"]).hexdigest() not in str(found["e_tag"])
    asked = program(s3, tmp_path)
    assert (await asked.run())[0] == 0
    assert asked.seen() == files


@pytest.mark.parametrize(
    ("source", "reason", "says"),
    [
        ({"bucket": "absent"}, "NOT_FOUND", "s3://absent/llama"),
        ({"prefix": "absent"}, "BAD_FORMAT", "s3://models/absent has no config.json"),
    ],
)
async def test_what_is_not_there_is_said(
    s3: str, tmp_path: Path, source: dict[str, str], reason: str, says: str
) -> None:
    code, lines = await program(s3, tmp_path, **source).run()
    assert code
    assert lines[-1]["phase"] == "failed"
    assert lines[-1]["reason"] == reason
    assert says in lines[-1]["message"]


async def test_google_s_bucket_is_read_by_the_calls_that_both_have(s3: str, tmp_path: Path) -> None:
    """Google's XML calls for listing and reading are S3's; its tokens are not tried, for this server takes none."""
    files = small_model()
    async with aiohttp.ClientSession(headers={"x-amz-acl": "public-read"}) as session:
        for name, content in (files | {"README.md": b"#"}).items():
            async with session.put(f"{s3}/models/llama/{name}", data=content) as answer:
                assert answer.status == 200
    key = {"gcs_base_url": s3, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    said = {"gcs": {"bucket": "models", "prefix": "llama"}}
    asked = Program(said, tmp_path, {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key)})
    assert (await asked.run())[0] == 0
    assert asked.seen() == files
    assert [line["phase"] for line in (await asked.run())[1]] == ["list", "done"]

    absent = Program({"gcs": {"bucket": "absent"}}, tmp_path / "absent", asked.environment)
    code, lines = await absent.run()
    assert (code, lines[-1]["reason"]) == (3, "NOT_FOUND")
    assert "gs://absent" in lines[-1]["message"]


async def test_an_s3_that_is_away_is_said_each_time(tmp_path: Path) -> None:
    """One end in four was an abort: a thread of the client came back while the interpreter ended."""
    ends = await asyncio.gather(*(program("http://127.0.0.1:1", tmp_path / str(at)).run() for at in range(12)))
    assert [(code, lines[-1]["reason"]) for code, lines in ends] == [(6, "NETWORK")] * len(ends)
