"""A manifest → what runs on this host: service, plan, knobs and the rendered repository. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from llmservice.api.engine import NATIVE_BACKENDS, Driver
from llmservice.api.findings import Finding
from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.api.validation import validate
from llmservice.capacity.instances import instance_warnings
from llmservice.capacity.plan import plan as plan_capacity
from llmservice.changes.inputs import Inputs, inputs_of
from llmservice.local.errors import LocalError
from llmservice.local.host import host_fleet
from llmservice.reconcile.knobs import knobs_in_force
from llmservice.repository.engine_config import NEWEST
from llmservice.repository.errors import RenderError
from llmservice.repository.features import OLDEST_GATE_VERSION, TritonFeatures
from llmservice.repository.gate_config import gate_warnings
from llmservice.repository.layout import Paths
from llmservice.repository.render import Repository, render

FEATURES: Final = replace(TritonFeatures.for_version(OLDEST_GATE_VERSION), asked=NEWEST)
"""What every known tritonserver can do: which one this host has is known only once it runs. vLLM is taken for new."""


@dataclass(frozen=True)
class Host:
    """Where a service runs: the pools that are known, bytes of memory, and the folders gate and engine use."""

    fleet: FleetDefaults
    memory_bytes: int
    paths: Paths


@dataclass(frozen=True)
class Intent:
    """What the manifest asks for, rendered for this host. `warnings` are sentences."""

    service: LLMService
    plan: CapacityPlan
    knobs: Knobs
    repository: Repository
    inputs: Inputs
    warnings: tuple[str, ...] = ()


class InvalidServiceError(LocalError):
    """The manifest is not valid; `findings` says where and what to write instead."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__(" ".join(str(finding) for finding in findings))
        self.findings = findings


def intend(manifest: Mapping[str, Any], host: Host) -> Intent:
    """The intent of `manifest`. Raises InvalidServiceError, and LocalError for what cannot run on this host."""
    findings = validate(manifest)
    if findings.errors:
        raise InvalidServiceError(findings.errors)
    try:
        service = LLMService.parse(dict(manifest))
    except ValidationError as error:
        raise LocalError(str(error)) from error
    return intend_service(service, host, tuple(str(finding) for finding in findings.warnings))


def intend_service(service: LLMService, host: Host, warnings: tuple[str, ...] = ()) -> Intent:
    """The intent of a valid service. Raises LocalError."""
    backend = service.spec.engine.backend
    if service.spec.engine.driver is Driver.NVIDIA:
        other = "" if backend in NATIVE_BACKENDS else f" and backend: {' or '.join(sorted(NATIVE_BACKENDS))}"
        raise LocalError(
            f"spec.engine.driver: the stock backend of {backend} is in NVIDIA's images only, not on this host: "
            f"write driver: Native{other}"
        )
    pool = service.spec.placement.pool
    if pool not in host.fleet.pools:
        note = f"spec.placement.pool: {pool} is not known here, so this runs on the CPU (--fleet names pools)"
        warnings = (*warnings, note)
    if service.spec.service.openai.api_keys_secret or service.spec.service.openai.tls_secret:
        note = "spec.service.openAI: Secrets are in a cluster, so this serves without keys and TLS, to this host only"
        warnings = (*warnings, note)
    fleet = host_fleet(host.fleet, pool, host.memory_bytes)
    plan = plan_capacity(service, fleet)
    if plan.fits is False:
        raise LocalError(plan.verdict)
    warnings += tuple(str(one) for one in (*gate_warnings(service, plan), *instance_warnings(service, plan)))
    knobs = knobs_in_force(service, plan)
    try:
        repository = render(service, plan, knobs, FEATURES, host.paths)
    except RenderError as error:
        raise LocalError(str(error)) from error
    return Intent(service, plan, knobs, repository, inputs_of(service, fleet, knobs), warnings)
