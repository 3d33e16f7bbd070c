"""Volumes of a pod, and where each container sees them."""

from __future__ import annotations

from typing import Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.model import ModelSource, ModelSpec
from llmservice.api.service import LLMService
from llmservice.api.template import OWNED_PATHS, PodTemplate
from llmservice.repository.errors import RenderError
from llmservice.workload.manifest import Manifest
from llmservice.workload.openai import openai_volumes

SOURCE_VOLUME: Final = "source"
CACHE_VOLUME: Final = "cache"
SOURCE_PATH: Final = "/source"
"""Where the volume of a pvc, oci or hostPath source is mounted, for Triton too: weights are linked, not copied."""

CACHE_PATH: Final = "/cache"
"""Where the cache of weights is mounted, for Triton too: what it holds is linked from `/models`."""

SHM_BYTES: Final = "1Gi"
PARALLEL_SHM_BYTES: Final = "8Gi"
"""A limit, not a reservation. Processes of a split engine exchange activations through shared memory."""

OWNED_VOLUMES: Final = (
    "rendered",
    "repository",
    "models",
    SOURCE_VOLUME,
    CACHE_VOLUME,
    "shm",
    "tmp",
    "openai-keys",
    "openai-tls",
)


def build_volumes(service: LLMService, config_map: str, template: PodTemplate, fleet: FleetDefaults) -> list[Manifest]:
    """All volumes of the pod. Raises RenderError when a volume of the template takes a name or path of the operator."""
    _refuse_owned(template)
    parallelism = service.spec.engine.parallelism
    shm = PARALLEL_SHM_BYTES if parallelism.accelerators > 1 else SHM_BYTES
    volumes: list[Manifest] = [
        {"name": "rendered", "configMap": {"name": config_map}},
        {"name": "repository", "emptyDir": {}},
        {"name": "models", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shm}},
        {"name": "tmp", "emptyDir": {}},
    ]
    for further in (source_volume(service.spec.model.source), cache_volume(service.spec.model, fleet)):
        volumes += [further] if further else []
    return volumes + openai_volumes(service) + [dict(volume) for volume in template.volumes]


def source_volume(source: ModelSource) -> Manifest | None:
    """The volume that already holds the model; None where the weights step fetches it."""
    if source.pvc:
        return {"name": SOURCE_VOLUME, "persistentVolumeClaim": {"claimName": source.pvc.claim_name, "readOnly": True}}
    if source.host_path:
        return {"name": SOURCE_VOLUME, "hostPath": {"path": source.host_path.path, "type": "Directory"}}
    if source.oci:
        return {"name": SOURCE_VOLUME, "image": {"reference": source.oci.reference, "pullPolicy": "IfNotPresent"}}
    return None


def cache_volume(model: ModelSpec, fleet: FleetDefaults) -> Manifest | None:
    """The volume that keeps fetched weights for other pods; None where there is none or nothing is fetched."""
    if not model.source.is_fetched:
        return None
    claim = model.cache.claim_name if model.cache else fleet.weights_cache.claim_name
    if claim:
        return {"name": CACHE_VOLUME, "persistentVolumeClaim": {"claimName": claim}}
    if fleet.weights_cache.host_path:
        return {"name": CACHE_VOLUME, "hostPath": {"path": fleet.weights_cache.host_path, "type": "Directory"}}
    return None


def repository_mounts() -> list[Manifest]:
    """What the container that writes the repository sees."""
    return [
        {"name": "rendered", "mountPath": "/rendered", "readOnly": True},
        {"name": "repository", "mountPath": "/repository"},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
    ]


def weights_mounts(source: ModelSource, template: PodTemplate) -> list[Manifest]:
    """What the container that reads an image, a package or a volume sees, with the template's volumes."""
    own: list[Manifest] = [
        {"name": "repository", "mountPath": "/repository", "readOnly": True},
        {"name": "models", "mountPath": "/models"},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        *_source_mount(source),
    ]
    return own + _asked_mounts(template)


def fetch_mounts(model: ModelSpec, template: PodTemplate, fleet: FleetDefaults) -> list[Manifest]:
    """What the container that reads hubs and buckets sees; the template's volumes may hold certificates."""
    own: list[Manifest] = [
        {"name": "models", "mountPath": "/models"},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        *(lease_mounts() if cache_volume(model, fleet) else []),
    ]
    return own + _asked_mounts(template)


def lease_mounts() -> list[Manifest]:
    """What the container that holds the pod's lease on its weights sees."""
    return [{"name": CACHE_VOLUME, "mountPath": CACHE_PATH}]


def cache_mounts(model: ModelSpec, fleet: FleetDefaults) -> list[Manifest]:
    """What those see that only read the cache; empty where there is none."""
    return [{**mount, "readOnly": True} for mount in lease_mounts()] if cache_volume(model, fleet) else []


def triton_mounts(model: ModelSpec, template: PodTemplate, fleet: FleetDefaults) -> list[Manifest]:
    """What Triton sees.

    The repository is read-only: a byte-code file in a version folder would turn an in-place change into a full reload.
    """
    own: list[Manifest] = [
        {"name": "repository", "mountPath": "/repository", "readOnly": True},
        {"name": "models", "mountPath": "/models", "readOnly": True},
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the pod's own
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        *_source_mount(model.source),
        *cache_mounts(model, fleet),
    ]
    asked = _asked_mounts(template)
    return own + asked


def _source_mount(source: ModelSource) -> list[Manifest]:
    return [{"name": SOURCE_VOLUME, "mountPath": SOURCE_PATH, "readOnly": True}] if source_volume(source) else []


def _refuse_owned(template: PodTemplate) -> None:
    for index, volume in enumerate(template.volumes):
        if volume.get("name") in OWNED_VOLUMES:
            raise RenderError(
                f"spec.template.volumes[{index}].name",
                f"{volume['name']!r} is the operator's own: use a name other than {', '.join(OWNED_VOLUMES)}",
            )
    for index, mount in enumerate(template.volume_mounts):
        if any(mount.mount_path == path or mount.mount_path.startswith(path + "/") for path in OWNED_PATHS):
            raise RenderError(
                f"spec.template.volumeMounts[{index}].mountPath",
                f"{mount.mount_path!r} is the operator's own: mount outside {', '.join(OWNED_PATHS)}",
            )


def _asked_mounts(template: PodTemplate) -> list[Manifest]:
    return [mount.model_dump(by_alias=True, exclude_none=True) for mount in template.volume_mounts]
