"""The architecture of a model whose files are on this host."""

from __future__ import annotations

import json
from pathlib import Path

from llmservice.capacity.architecture import Model
from llmservice.capacity.config_json import UnknownArchitectureError, parse_config
from llmservice.capacity.headers import read_gguf
from llmservice.weights.report import stored_parameters


class UnreadableModelError(Exception):
    """The files of a model are missing or not understood; the message names the file."""


def read_model(path: Path) -> Model:
    """The model in a folder, a config.json or a GGUF file. Raises UnreadableModelError."""
    try:
        if path.is_dir():
            return _of_folder(path)
        if path.suffix == ".gguf":
            with path.open("rb") as file:
                return read_gguf(path.stem, file)
        described = json.loads(path.read_text(encoding="utf-8"))
        return parse_config(path.parent.name or path.stem, described, stored_parameters(path.parent))
    except UnknownArchitectureError as error:
        raise UnreadableModelError(f"{path}: {error}") from error
    except OSError as error:
        raise UnreadableModelError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UnreadableModelError(f"{path}: {error}") from error


def _of_folder(folder: Path) -> Model:
    config = folder / "config.json"
    if not config.is_file():
        ggufs = sorted(folder.glob("*.gguf"))
        if len(ggufs) != 1:
            raise UnreadableModelError(f"{folder} holds neither a config.json nor exactly one GGUF file")
        return read_model(ggufs[0])
    return read_model(config)
