"""What a service's pods are made from, as flat fields: the form in which two states of a service are compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.api.knobs import Knobs
from llmservice.api.service import LLMService

Inputs: TypeAlias = Mapping[str, JsonValue]
"""Field path → value. Fields at their default are absent, so a field that a later version adds changes nothing."""

DEFAULT_IMAGE: Final = "fleet.image"
"""Path of the fleet's default image; absent where the service names its own."""

LONGEST_VALUE: Final = 256
"""Longer values (chat templates, certificates in env) are kept as digests: an annotation holds 256 KiB in all."""


def inputs_of(service: LLMService, fleet: FleetDefaults, knobs: Knobs | None = None) -> Inputs:
    """The inputs of `service`: its spec, the pool it is placed in, its default image and, when given, the knobs.

    The operator's own image and version are no inputs: an upgrade of the operator changes no service.
    """
    spec = service.spec
    pool = fleet.pools.get(spec.placement.pool, Pool())
    fields: dict[str, JsonValue] = {}
    fields.update(_flat("spec", spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
    fields.update(_flat("pool", pool.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
    if spec.engine.image is None and spec.engine.backend in fleet.images:
        fields[DEFAULT_IMAGE] = fleet.images[spec.engine.backend].image
    if knobs is not None:
        fields.update(_flat("knobs", knobs.model_dump(mode="json", by_alias=True)))
    return {path: _short(value) for path, value in sorted(fields.items())}


def to_annotation(inputs: Inputs) -> str:
    """`inputs` as canonical JSON, the form in which a Deployment carries them."""
    return json.dumps(dict(inputs), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def from_annotation(text: str) -> Inputs | None:
    """The inputs that `to_annotation` wrote; None for text that it cannot have written."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _flat(path: str, value: Any) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}", inner)
    elif value is not None and value != {}:
        yield path, value


def _short(value: JsonValue) -> JsonValue:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return value if len(text) <= LONGEST_VALUE else "sha256:" + hashlib.sha256(text.encode()).hexdigest()
