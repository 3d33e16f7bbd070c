"""The `parameters` of a model's configuration, read with types and errors that name the key."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

_TRUE: Final = {"true": True, "false": False}


class ParameterError(ValueError):
    """A parameter is missing or has a wrong value; the message names it."""


class Mode(StrEnum):
    """How batches form, `spec.batching.mode`."""

    NONE = "None"
    STATIC = "Static"
    DYNAMIC = "Dynamic"
    CONTINUOUS = "Continuous"

    @property
    def runs_batches(self) -> bool:
        """Whether the gate forms the batch and the engine runs it to completion."""
        return self in (Mode.STATIC, Mode.DYNAMIC)


class Parameters:
    """String parameters by key. Every reader raises `ParameterError`."""

    def __init__(self, values: Mapping[str, str], model: str = "") -> None:
        self._values = dict(values)
        self.model = model

    @classmethod
    def from_model_config(cls, model_config: str) -> Self:
        """From the JSON that Triton gives to `initialize` as `model_config`."""
        config = json.loads(model_config)
        values = {key: value["string_value"] for key, value in config.get("parameters", {}).items()}
        return cls(values, model=config.get("name", ""))

    def keys(self) -> frozenset[str]:
        """Every key there is."""
        return frozenset(self._values)

    def text(self, key: str, default: str | None = None) -> str:
        """The string itself; with `default`, the key may be absent or empty."""
        value = self._values.get(key, "")
        if value:
            return value
        if default is None:
            raise self._error(key, "is missing")
        return default

    def integer(self, key: str, default: int | None = None, minimum: int = 0) -> int:
        """A whole number of at least `minimum`."""
        text = self.text(key, None if default is None else str(default))
        try:
            value = int(text)
        except ValueError:
            raise self._error(key, f"must be a whole number, not {text!r}") from None
        if value < minimum:
            raise self._error(key, f"must be at least {minimum}, not {value}")
        return value

    def number(self, key: str, default: float | None = None, minimum: float = -math.inf) -> float:
        """A decimal number of at least `minimum`."""
        text = self.text(key, None if default is None else str(default))
        try:
            value = float(text)
        except ValueError:
            raise self._error(key, f"must be a number, not {text!r}") from None
        if not minimum <= value < math.inf:
            raise self._error(key, f"must be at least {minimum:g}, not {text}")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """`true` or `false`."""
        text = self.text(key, None if default is None else str(default).lower())
        if text not in _TRUE:
            raise self._error(key, f"must be true or false, not {text!r}")
        return _TRUE[text]

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A JSON list of whole numbers."""
        if default is not None and not self._values.get(key):
            return default
        text = self.text(key)
        try:
            return tuple(int(item) for item in json.loads(text))
        except (ValueError, TypeError):
            raise self._error(key, f"must be a JSON list of whole numbers, not {text!r}") from None

    def mode(self, key: str = "mode") -> Mode:
        """A batching mode."""
        text = self.text(key, Mode.CONTINUOUS.value)
        try:
            return Mode(text)
        except ValueError:
            known = ", ".join(mode.value for mode in Mode)
            raise self._error(key, f"must be one of {known}, not {text!r}") from None

    def _error(self, key: str, what: str) -> ParameterError:
        of = f" of model {self.model}" if self.model else ""
        return ParameterError(f"parameters[{key}] in config.pbtxt{of} {what}")


@dataclass(frozen=True)
class MeetingPlace:
    """Where gate and engine of one service find each other: `folder` is `run_directory/service`."""

    run_directory: Path
    service: str

    @classmethod
    def of(cls, parameters: Parameters) -> Self:
        """From `run_directory` and `service`. Raises ParameterError when they are too long for a Unix socket."""
        place = cls(Path(parameters.text("run_directory")), parameters.text("service"))
        longest = len(os.fsencode(place.socket("x" * INSTANCE_NAME_LIMIT)))
        if longest > SOCKET_PATH_LIMIT:
            raise ParameterError(
                f"parameters[run_directory] in config.pbtxt: {place.folder} is {longest - SOCKET_PATH_LIMIT} bytes too "
                "long for a Unix socket inside it; use a shorter folder"
            )
        return place

    @property
    def folder(self) -> Path:
        """Holds one socket and one table of slots per engine instance."""
        return self.run_directory / self.service

    def socket(self, instance: str) -> Path:
        """The instance's socket."""
        return self.folder / f"{instance}{SOCKET_SUFFIX}"

    def slots(self, instance: str) -> Path:
        """The instance's table of slots."""
        return self.folder / f"{instance}{SLOTS_SUFFIX}"

    def instances(self) -> list[str]:
        """Names of the instances that have a socket; one that died may have left it behind."""
        try:
            return sorted(path.stem for path in self.folder.iterdir() if path.suffix == SOCKET_SUFFIX)
        except FileNotFoundError:
            return []


SOCKET_PATH_LIMIT: Final = 107  # sockaddr_un.sun_path, less its end
INSTANCE_NAME_LIMIT: Final = 20  # a process id and six digits
SOCKET_SUFFIX: Final = ".sock"
SLOTS_SUFFIX: Final = ".slots"
