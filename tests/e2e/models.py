"""Models of the `e2e` tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.greedy import SMOLLM2
from llmserving.weights import prepare


@pytest.fixture(scope="session")
def smollm2_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SmolLM2-135M-Instruct in Hugging Face form, kept between runs where LLMSERVICE_MODELS names a folder."""
    kept = os.environ.get("LLMSERVICE_MODELS")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("models")
    yield prepare(SMOLLM2, folder / "smollm2")
    if not kept:
        (folder / "smollm2" / "model.safetensors").unlink()


@pytest.fixture(scope="session")
def smollm2(smollm2_files: Path) -> Path:
    """The same; in tests of services in the cluster this name is a service's."""
    return smollm2_files
