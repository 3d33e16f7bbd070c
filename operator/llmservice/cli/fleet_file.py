"""Reads the fleet defaults that a command was pointed at."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from llmservice.api.fleet import FleetDefaults
from llmservice.cli.documents import fail, read_text


def read_fleet(path: Path | None) -> FleetDefaults:
    """The fleet defaults in `path`, or the built-in ones. Ends the command with one clear error where it is bad."""
    if path is None:
        return FleetDefaults()
    try:
        return FleetDefaults.model_validate(yaml.safe_load(read_text(path)) or {})
    except (yaml.YAMLError, ValidationError) as error:
        raise fail(f"{path}: {error}") from error
