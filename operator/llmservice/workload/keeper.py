"""A keeper: what keeps a revision's replicas, a Deployment, or a LeaderWorkerSet where each is a group of pods."""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from llmservice.workload.manifest import Manifest
from llmservice.workload.names import REVISION_LABEL

_GROUPS: Final = "leaderWorkerTemplate"


def keeps_groups(keeper: Manifest) -> bool:
    """Whether each replica is a leader with its workers."""
    return _GROUPS in keeper["spec"]


def revision_of_keeper(keeper: Manifest) -> str:
    """The revision's name; empty for an object without the label."""
    return str((keeper["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def template_field(keeper: Manifest) -> str:
    """The field of `spec` that says what replicas are made from: a pod's template, or a group's."""
    return _GROUPS if keeps_groups(keeper) else "template"


def replica_template(keeper: Manifest) -> Manifest:
    """The template of the pods with Triton, which stand for their replicas."""
    template: Manifest = keeper["spec"][template_field(keeper)]
    found: Manifest = template["leaderTemplate"] if keeps_groups(keeper) else template
    return found


def with_replicas(keeper: Manifest, replicas: int) -> Manifest:
    """The keeper with its count. Always set it: a field dropped from an apply falls back to 1."""
    built = deepcopy(keeper)
    built["spec"]["replicas"] = replicas
    return built
