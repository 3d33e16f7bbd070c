"""Containers of a pod: the one that writes the repository, and those that compute, Triton and a worker's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.api.template import PodTemplate
from llmservice.repository.errors import RenderError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.topology import engine_model
from llmservice.workload.arguments import TOKEN_VARIABLE, triton_command
from llmservice.workload.claims import CLAIM
from llmservice.workload.container import container
from llmservice.workload.manifest import Manifest
from llmservice.workload.names import (
    GRPC_PORT,
    HTTP_PORT,
    METRICS_PORT,
    REPOSITORY_CONTAINER,
    TOKEN_KEY,
    TRITON_CONTAINER,
    WORKER_CONTAINER,
    secret_name,
)
from llmservice.workload.parts import Parts
from llmservice.workload.probes import build_lifecycle, build_probes
from llmservice.workload.volumes import repository_mounts, triton_mounts

ENV: Final = {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108 - the pod's own
OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""Weights are on disk by now: an engine that asks a hub would only hang."""
ADDRESS: Final[Manifest] = {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
"""By which vLLM's processes on other nodes reach those of this pod."""
_DEFAULT_REQUESTS: Final = {"cpu": "250m", "memory": "512Mi"}
"""Keeps a pod out of the class that is evicted first; pools and services say what a replica really needs."""


def build_repository_container(fleet: FleetDefaults) -> Manifest:
    """Writes the Triton repository: rendered configurations, and the code of gate and engine from its own image."""
    content: Manifest = {
        "args": ["repository", "write", "--rendered", "/rendered", "--repository", "/repository"],
        "env": variables(ENV),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
    }
    return container(REPOSITORY_CONTAINER, fleet.operator_image, fleet, content, repository_mounts())


def build_triton_container(service: LLMService, plan: CapacityPlan, made: Parts, fleet: FleetDefaults) -> Manifest:
    """Triton with gate and engine. Raises RenderError when the template sets a variable of the operator."""
    name = service.metadata.name
    command = triton_command(service, TritonFeatures.for_version(made.image.triton_version))
    ports = (("http", HTTP_PORT), ("grpc", GRPC_PORT), ("metrics", METRICS_PORT))
    own: Manifest = {
        "command": command[:1],
        "args": command[1:],
        "ports": [{"name": port, "containerPort": number, "protocol": "TCP"} for port, number in ports],
    }
    token = {"secretKeyRef": {"name": secret_name(name), "key": TOKEN_KEY}}
    owned: list[Manifest] = [{"name": TOKEN_VARIABLE, "valueFrom": token}, *([ADDRESS] if plan.nodes > 1 else [])]
    built = _computing(TRITON_CONTAINER, service, made, fleet, own, owned)
    return {**built, "lifecycle": build_lifecycle(fleet), **build_probes(name, plan)}


def build_worker_container(service: LLMService, made: Parts, fleet: FleetDefaults) -> Manifest:
    """Processes of vLLM on another node than the leader's. No probe: there is no port, and the leader waits for it.

    Raises RenderError when the template sets a variable of the operator.
    """
    own: Manifest = {
        "command": ["python3", "-m", "llmvllm.worker"],
        "workingDir": f"/repository/{engine_model(service).name}/1",
    }
    return _computing(WORKER_CONTAINER, service, made, fleet, own, [ADDRESS])


def _computing(
    name: str, service: LLMService, made: Parts, fleet: FleetDefaults, own: Manifest, owned: list[Manifest]
) -> Manifest:
    """A container in the serving image with the pod's accelerators: `own` fields, and variables `owned` by us."""
    content = {
        **own,
        "env": _with_asked([*variables(ENV), *owned], made.template),
        "resources": _resources(made.template, made.accelerators)
        | ({"claims": [{"name": CLAIM}]} if made.claimed else {}),
    }
    mounts = triton_mounts(service.spec.model, made.template, fleet)
    return container(name, made.image.image, fleet, content, mounts)


def _with_asked(owned: list[Manifest], template: PodTemplate) -> list[Manifest]:
    """Ours, then the template's."""
    defaults = {entry["name"]: entry for entry in variables(OFFLINE)}
    return owned + list((defaults | asked_env(template, owned)).values())


def asked_env(template: PodTemplate, owned: list[Manifest]) -> dict[str, Manifest]:
    """The template's variables by name. Raises RenderError for one that the operator sets."""
    taken = {variable["name"] for variable in owned}
    for index, variable in enumerate(template.env):
        if variable.name in taken:
            raise RenderError(f"spec.template.env[{index}].name", f"{variable.name} is set by the operator: remove it")
    return {variable.name: variable.model_dump(by_alias=True, exclude_none=True) for variable in template.env}


def _resources(template: PodTemplate, accelerators: dict[str, str]) -> dict[str, Any]:
    """What pool and service ask for, and the accelerators.

    A request that only a limit names is left to Kubernetes, which makes it the limit. Raises RenderError for a request
    above its limit, as the pool's may be above the service's: Kubernetes would refuse the Deployment.
    """
    if name := template.resources.above_limit():
        raise RenderError(
            "spec.template.resources",
            f"with what the pool sets, {name} has a request of {template.resources.requests[name]} and a limit of "
            f"{template.resources.limits[name]}: write a request and a limit of {name} that agree",
        )
    limits = {**template.resources.limits, **accelerators}
    defaults = {key: value for key, value in _DEFAULT_REQUESTS.items() if key not in limits}
    requests = {**defaults, **template.resources.requests, **accelerators}
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def variables(values: Mapping[str, str]) -> list[Manifest]:
    """Environment variables in Kubernetes' form."""
    return [{"name": name, "value": value} for name, value in values.items()]
