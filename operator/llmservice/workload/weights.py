"""The containers that bring the weights, and the one that keeps them in the cache while the pod lives."""

from __future__ import annotations

from typing import Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.model import HostPathSource, ModelSource, ModelSpec
from llmservice.api.service import LLMService
from llmservice.api.template import PodTemplate
from llmservice.repository.source_folders import source_folders
from llmservice.repository.topology import engine_model
from llmservice.workload.container import container
from llmservice.workload.containers import ENV, asked_env, variables
from llmservice.workload.manifest import Manifest
from llmservice.workload.names import CONVERT_CONTAINER, LEASE_CONTAINER, WEIGHTS_CONTAINER
from llmservice.workload.volumes import (
    CACHE_PATH,
    SOURCE_PATH,
    cache_mounts,
    cache_volume,
    fetch_mounts,
    lease_mounts,
    source_volume,
    weights_mounts,
)

FETCHED_PATH: Final = "/models/.fetched"
"""Where a GGUF file is linked, to be converted."""

_REFUSED: Final = ("PYTHON", "LD_")
"""Beginnings of variables that would bring code into a container that writes a cache of others."""

_WRITING: Final[Manifest] = {"requests": {"cpu": "100m", "memory": "256Mi"}}
"""No memory limit: written files count towards it, and the kernel takes their pages back when it must."""

_POD_UID: Final[Manifest] = {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}


def build_weights_containers(
    service: LLMService, image: str, template: PodTemplate, fleet: FleetDefaults
) -> list[Manifest]:
    """The init containers, in order. Raises RenderError when the template sets a variable of the operator.

    Hubs and buckets are read by the operator's own image, what is in the serving image or on a volume by the serving
    image, whose Python knows the formats.
    """
    if not service.spec.model.source.is_fetched:
        return [_local(service, image, template, fleet)]
    model = service.spec.model
    built = [_lease(fleet)] if cache_volume(model, fleet) else []
    built.append(_fetch(model, source_folders(service), template, fleet))
    if model.source.is_converted:
        built.append(_convert(service, image, template, fleet))
    return built


def _fetch(model: ModelSpec, folders: tuple[str, ...], template: PodTemplate, fleet: FleetDefaults) -> Manifest:
    """Brings a model from a hub or a bucket: into the cache where there is one, and by links to `/models`."""
    cached = cache_volume(model, fleet)
    arguments = ["weights", "fetch", "--source", _literal(model.source.text), "--target"]
    arguments += [FETCHED_PATH if model.source.is_converted else "/models"]
    arguments += [f"--folder={_literal(folder)}" for folder in folders]
    arguments += ["--cache", CACHE_PATH if cached else "/models/.cache"]
    limit = fleet.weights_cache.size_limit_bytes if cached else None
    if cached:
        arguments += ["--pod", "$(POD_UID)", "--verify", fleet.weights_cache.verify.value]
    if limit:
        arguments += ["--size-limit", str(limit)]
    owned = [*variables(ENV), *_credentials(model.source), *([_POD_UID] if cached else [])]
    asked = [one for name, one in asked_env(template, owned).items() if not name.startswith(_REFUSED)]
    content: Manifest = {"args": arguments, "env": owned + asked, "resources": _WRITING}
    built = container(WEIGHTS_CONTAINER, fleet.operator_image, fleet, content, fetch_mounts(model, template, fleet))
    if model.source.s3 and model.source.s3.credentials_secret:
        built["envFrom"] = [{"secretRef": {"name": model.source.s3.credentials_secret}}]
    return built


def _lease(fleet: FleetDefaults) -> Manifest:
    """A sidecar (KEP-753: on by default since 1.29) that holds the pod's lease from before the fetch until its end."""
    content: Manifest = {
        "restartPolicy": "Always",
        "command": ["python3", "-I", "-m", "llmservice.weights.hold", CACHE_PATH, "$(POD_UID)"],
        "env": [*variables(ENV), _POD_UID],
        "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
    }
    return container(LEASE_CONTAINER, fleet.operator_image, fleet, content, lease_mounts())


def _local(service: LLMService, image: str, template: PodTemplate, fleet: FleetDefaults) -> Manifest:
    """Brings what is in the serving image, a package index or a volume: code from the repository, in that image.

    Has the template's variables and volumes too: proxies, certificates, Python packages.
    """
    source = service.spec.model.source
    arguments = ["--mount", SOURCE_PATH] if source_volume(source) else []
    mounts = weights_mounts(source, template)
    return _in_serving_image(WEIGHTS_CONTAINER, service, source, arguments, mounts, image, template, fleet)


def _convert(service: LLMService, image: str, template: PodTemplate, fleet: FleetDefaults) -> Manifest:
    """Makes what engines read of the GGUF file that was fetched; the file stays where it is, once for all pods."""
    model = service.spec.model
    fetched = ModelSource(host_path=HostPathSource(path=FETCHED_PATH))
    mounts = [*weights_mounts(model.source, template), *cache_mounts(model, fleet)]
    return _in_serving_image(CONVERT_CONTAINER, service, fetched, [], mounts, image, template, fleet)


def _in_serving_image(
    name: str,
    service: LLMService,
    source: ModelSource,
    arguments: list[str],
    mounts: list[Manifest],
    image: str,
    template: PodTemplate,
    fleet: FleetDefaults,
) -> Manifest:
    script = f"/repository/{engine_model(service).name}/1/llmserving/weights.py"
    owned = variables(ENV)
    content: Manifest = {
        "command": ["python3"],
        "args": [script, "--source", _literal(source.text), "--target", "/models", *arguments],
        "env": owned + list(asked_env(template, owned).values()),
        "resources": _WRITING,
    }
    return container(name, image, fleet, content, mounts)


def _literal(text: str) -> str:
    """An argument that the kubelet hands over as it stands: it would put variables, even secret ones, for `$(NAME)`."""
    return text.replace("$", "$$")


def _credentials(source: ModelSource) -> list[Manifest]:
    references = {
        "HF_TOKEN": source.hugging_face and source.hugging_face.token_secret_ref,
        "GOOGLE_SERVICE_ACCOUNT_KEY": source.gcs and source.gcs.credentials_secret_ref,
    }
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": reference.name, "key": reference.key}}}
        for name, reference in references.items()
        if reference
    ]
