from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.torch_engine.tiny import make_model, write_tokenizer


@pytest.fixture(scope="session")
def family_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny random model of a family, made once."""
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            path = tmp_path_factory.mktemp(family)
            make_model(family).save_pretrained(path)
            write_tokenizer(path)
            made[family] = path
        return made[family]

    return folder


@pytest.fixture(scope="session")
def tiny_llama(family_folder: Callable[[str], Path]) -> Path:
    return family_folder("llama")
