"""A revision's name: the hash of everything that a running pod cannot change."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import json_format

from llmservice.repository.render import Repository, Role
from llmservice.workload.manifest import Manifest, digest
from llmservice.workload.names import REVISION_LENGTH

LIVE_PARAMETERS: Final = ("slots",)
"""Parameters of the engine that are knobs."""


def revision_of(template: Manifest, repository: Repository) -> str:
    """The revision, 8 hex digits, of a pod template (built with an empty revision) and the engine's configuration.

    The gate's configuration, the engine's instance count, its slots and the replicas change live and are not in it.
    Without a gate nothing changes live, and every file counts.
    """
    fixed = {"engine": _fixed(repository.config(Role.ENGINE))} if repository.has_gate else {"files": repository.files}
    return digest({"template": template, **fixed})[:REVISION_LENGTH]


def _fixed(config: Any) -> dict[str, Any]:
    """The engine's configuration without its live parts, as JSON."""
    for group in config.instance_group:
        group.ClearField("count")
    for key in LIVE_PARAMETERS:
        if key in config.parameters:
            del config.parameters[key]
    fixed: dict[str, Any] = json_format.MessageToDict(config, preserving_proto_field_name=True)
    return fixed
