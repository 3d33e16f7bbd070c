"""The linter and a real tritonserver agree: what is called an error is refused, what is called a warning is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from llmservice.local.tritonserver import TritonServer
from llmservice.triton.client import TritonClient
from llmservice.triton.errors import TritonError
from tests.unit.repository.pbtxt_samples import ERRORS, GOOD, WARNINGS, Sample

pytestmark = pytest.mark.e2e

CODE = "class TritonPythonModel:\n    def execute(self, requests):\n        return None\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    repository = tmp_path_factory.mktemp("lint")
    (repository / "m" / "1").mkdir(parents=True)
    (repository / "m" / "1" / "model.py").write_text(CODE)
    with TritonServer(repository) as server:
        yield server


async def load(server: TritonServer, text: str) -> None:
    await asyncio.to_thread((server.repository / "m" / "config.pbtxt").write_text, text)
    async with TritonClient(server.grpc_address) as client:
        await client.load("m")
        await client.unload("m")


def named(sample: Sample) -> str:
    return f"{sample.code}: {sample.says}"


async def test_triton_takes_what_has_no_finding(server: TritonServer) -> None:
    await load(server, GOOD)


@pytest.mark.parametrize("sample", ERRORS, ids=named)
async def test_triton_refuses_what_is_an_error(server: TritonServer, sample: Sample) -> None:
    with pytest.raises(TritonError, match=r"failed to load 'm'|load failed for model 'm'"):
        await load(server, sample.whole)


@pytest.mark.parametrize("sample", WARNINGS, ids=named)
async def test_triton_takes_what_is_a_warning(server: TritonServer, sample: Sample) -> None:
    await load(server, sample.whole)
