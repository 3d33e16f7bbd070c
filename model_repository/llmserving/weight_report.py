"""What the weights step found, for the operator: the termination message of its container, at most 4096 bytes.

The operator's own program (`llmservice/weights/report.py`) writes the same for hubs and buckets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

MOST_HEADER_BYTES = 100_000_000
"""What safetensors allows: https://github.com/huggingface/safetensors#format."""
MOST_BYTES = 3800
"""Kubernetes cuts the message at 4096 bytes."""
KEPT_LISTS = ("architectures", "layer_types")
KEPT_OBJECTS = ("text_config", "quantization_config", "config_groups")


def report(source: str, folder: Path) -> str:
    """The message: which source (`--source` as it was given), the shape in config.json, all numbers of the weights.

    What cannot be read is left out: then nothing is claimed of the model.
    """
    said: dict[str, Any] = {"source": hashlib.sha256(source.encode()).hexdigest()[:16]}
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        said |= {"config": _shape(config), "parameters": _parameters(folder)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _text(said)
    for left_out in ("layer_types", None):
        if len(_text(said).encode()) <= MOST_BYTES:
            break
        said["config"] = {} if left_out is None else {k: v for k, v in said["config"].items() if k != left_out}
    return _text(said)


def _text(said: Mapping[str, Any]) -> str:
    return json.dumps(said, separators=(",", ":"))


def _shape(config: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and words of a config, not its tables of labels and settings of other parts."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if key in KEPT_LISTS or isinstance(value, (int, float, str)):
            found[key] = value
        elif key in KEPT_OBJECTS and isinstance(value, dict):
            found[key] = value if key == "config_groups" else _shape(value)
    return found


def _parameters(folder: Path) -> int | None:
    """All numbers in the safetensors files, by their headers: 8 bytes of size, then JSON."""
    total = 0
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > MOST_HEADER_BYTES:
                raise ValueError(f"{path.name} has a header of {size} bytes: it is no safetensors file")
            header = json.loads(file.read(size))
        total += sum(prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
    return total or None
