"""What every child's manifest has: kind, name, labels and the owner that takes it along when it goes."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

from llmservice.api.service import API_VERSION, KIND, LLMService
from llmservice.workload.names import labels

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON. Holds only the fields that the operator owns, as server-side apply wants it."""


def manifest(
    service: LLMService,
    api_version: str,
    kind: str,
    name: str,
    *,
    revision: str | None = None,
    annotations: dict[str, str] | None = None,
    extra_labels: dict[str, str] | None = None,
) -> Manifest:
    """The head of a child of `service`: an object without content yet."""
    metadata: Manifest = {
        "name": name,
        "namespace": service.metadata.namespace,
        "labels": (extra_labels or {}) | labels(service.metadata.name, revision),
        "ownerReferences": [owner_reference(service)],
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def owner_reference(service: LLMService) -> Manifest:
    """The reference by which the garbage collector deletes a child with its service, operator or no operator."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": service.metadata.name,
        "uid": service.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def digest(value: object) -> str:
    """SHA-256, in hex, of the canonical JSON of `value`: keys sorted, no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
