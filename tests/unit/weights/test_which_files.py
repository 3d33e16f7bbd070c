"""Which files of a repository come: a model's and no others, the folders and the GGUF file that are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmservice.weights.entry import Verify
from llmservice.weights.errors import ExitCode, WeightsError
from llmservice.weights.links import link
from tests.unit.weights.fetching import fetched, read
from tests.weights.hub_server import COMMIT, HubServer
from tests.weights.small_model import small_model

pytestmark = pytest.mark.unit


async def test_what_an_engine_reads_comes_and_the_rest_stays(hub: HubServer, tmp_path: Path) -> None:
    found = await fetched(hub, tmp_path)
    assert read(found.entry) == small_model()
    assert found.revision == COMMIT
    assert found.transferred == found.size == sum(map(len, small_model().values()))
    assert list(found.entry.partial.iterdir()) == []


@pytest.mark.parametrize(
    ("lacking", "says"), [("config.json", "no config.json"), ("model-1-of-1.safetensors", r"no \.safetensors")]
)
async def test_a_repository_without_a_model_is_said_before_a_byte_is_fetched(
    tmp_path: Path, lacking: str, says: str
) -> None:
    files = small_model(shards=1)
    del files[lacking]
    async with HubServer(files).running() as hub:
        with pytest.raises(WeightsError, match=says) as caught:
            await fetched(hub, tmp_path)
    assert (caught.value.code, hub.sent) == (ExitCode.BAD_FORMAT, 0)


ADAPTERS = {
    "adapters/sql/adapter_config.json": b"{}",
    "adapters/sql/adapter_model.safetensors": b"s" * 1000,
    "adapters/chat/adapter_config.json": b"[]",
    "other/model.safetensors": b"o" * 1000,
}


async def test_folders_come_where_they_are_asked_for_and_those_of_another_service_stay(tmp_path: Path) -> None:
    async with HubServer(small_model() | ADAPTERS).running() as hub:
        one = await fetched(hub, tmp_path, folders=("adapters/sql",))
        other = await fetched(hub, tmp_path, folders=("adapters/chat",))
        again = await fetched(hub, tmp_path, folders=("adapters/sql",), verify=Verify.ALWAYS)
    link(one.entry.files, tmp_path / "models")
    assert (tmp_path / "models/adapters/sql/adapter_model.safetensors").read_bytes() == b"s" * 1000
    assert (tmp_path / "models/adapters/chat/adapter_config.json").read_bytes() == b"[]"
    assert not (tmp_path / "models/other").exists()
    assert one.entry == other.entry == again.entry
    assert (other.transferred, again.transferred) == (2, 0)


async def test_a_folder_that_is_not_there_is_said_before_a_byte_is_fetched(tmp_path: Path) -> None:
    async with HubServer(small_model() | ADAPTERS).running() as hub:
        with pytest.raises(WeightsError, match="no files in its folder 'adapters/sq'") as caught:
            await fetched(hub, tmp_path, folders=("adapters/sq",))
    assert (caught.value.code, hub.sent) == (ExitCode.NOT_FOUND, 0)


async def test_a_built_engine_with_its_tokenizer_comes(tmp_path: Path) -> None:
    files = {"config.json": b"{}", "rank0.engine": b"e" * 1000, "tokenizer/tokenizer.json": b"{}"}
    async with HubServer(files | {"README.md": b"#"}).running() as hub:
        found = await fetched(hub, tmp_path, folders=("tokenizer",))
    kept = {str(path.relative_to(found.entry.files)) for path in found.entry.files.rglob("*") if path.is_file()}
    assert kept == set(files)


GGUFS = {"m-Q4_K_M.gguf": b"GGUF" + b"4" * 1000, "m-Q8_0.gguf": b"GGUF" + b"8" * 2000, "config.json": b"{}"}


async def test_one_gguf_file_is_taken_and_another_of_the_same_repository_has_a_place_of_its_own(tmp_path: Path) -> None:
    async with HubServer(GGUFS).running() as hub:
        first = await fetched(hub, tmp_path, file="*Q4_K_M.gguf")
        other = await fetched(hub, tmp_path, file="m-Q8_0.gguf")
    assert read(first.entry) == {"m-Q4_K_M.gguf": GGUFS["m-Q4_K_M.gguf"]}
    assert read(other.entry) == {"m-Q8_0.gguf": GGUFS["m-Q8_0.gguf"]}
    again = await fetched(hub, tmp_path, file="*Q4_K_M.gguf")
    assert (again.entry, again.transferred, bool(again.offline)) == (first.entry, 0, True)


@pytest.mark.parametrize(
    ("file", "code", "says"),
    [
        (
            None,
            ExitCode.BAD_FORMAT,
            r"no \.safetensors files: write one of its GGUF files as file \(m-Q4_K_M\.gguf, m-Q8",
        ),
        ("*.gguf", ExitCode.BAD_FORMAT, r"several files '\*\.gguf' \(m-Q4_K_M\.gguf, m-Q8_0\.gguf\)"),
        ("m-Q2_K.gguf", ExitCode.NOT_FOUND, r"no file 'm-Q2_K\.gguf' in its top folder, but m-Q4_K_M\.gguf"),
    ],
)
async def test_which_gguf_file_is_meant_must_be_clear(
    tmp_path: Path, file: str | None, code: ExitCode, says: str
) -> None:
    async with HubServer(GGUFS).running() as hub:
        with pytest.raises(WeightsError, match=says) as caught:
            await fetched(hub, tmp_path, file=file)
    assert (caught.value.code, hub.sent) == (code, 0)


async def test_a_file_outside_of_the_repository_is_refused(tmp_path: Path) -> None:
    async with HubServer(small_model() | {"../../evil.json": b"{}"}).running() as hub:
        with pytest.raises(WeightsError, match="names a file outside"):
            await fetched(hub, tmp_path)
