"""What the weights step left in its container's termination message: one JSON object, where it came to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmservice.diagnose.pod import Pod
from llmservice.workload.names import CONVERT_CONTAINER, WEIGHTS_CONTAINER


@dataclass(frozen=True)
class WeightsReport:
    """What was brought. `source` is the key of `spec.model.source`, `config` parts of config.json."""

    source: str
    revision: str | None = None
    size: int | None = None
    transferred: int | None = None
    parameters: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


def weights_report(pod: Pod) -> WeightsReport | None:
    """The report of a pod's weights steps; None where one is not over, failed, or said nothing that can be read."""
    said = _said(pod, WEIGHTS_CONTAINER)
    if not isinstance(said.get("source"), str):
        return None
    if pod.init(CONVERT_CONTAINER) is not None:
        converted = _said(pod, CONVERT_CONTAINER)
        if not converted:
            return None  # before it, nobody knows what is in a GGUF file
        said |= {name: converted[name] for name in ("config", "parameters") if name in converted}
    config = said.get("config")
    return WeightsReport(
        source=said["source"],
        revision=said["revision"] if isinstance(said.get("revision"), str) else None,
        size=_count(said, "bytes"),
        transferred=_count(said, "transferred"),
        parameters=_count(said, "parameters"),
        config=config if isinstance(config, dict) else {},
    )


def _said(pod: Pod, container: str) -> dict[str, Any]:
    """The message of an init container that came to its end; empty where there is none."""
    found = pod.init(container)
    if found is None or found.ended is None or found.ended.exit_code:
        return {}
    try:
        said = json.loads(found.ended.message)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _count(said: Mapping[str, Any], name: str) -> int | None:
    value = said.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
