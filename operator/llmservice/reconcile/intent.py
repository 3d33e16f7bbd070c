"""Plan and render: what the spec asks for, as manifests, or the reason why nothing can be made of it.

Pure: the same manifest and fleet give the same intent. A stored object may be invalid (an old CRD admitted it), so
everything that admission checks is checked again here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.service import LLMService
from llmservice.api.validation import Findings, validate
from llmservice.capacity.instances import instance_warnings
from llmservice.capacity.kept import plan_beside_kept, plan_of_kept
from llmservice.capacity.limits import QUOTA_CODE
from llmservice.capacity.plan import plan as plan_capacity
from llmservice.capacity.pools import unknown_pool_words
from llmservice.capacity.quota import Share, too_many
from llmservice.changes.inputs import inputs_of
from llmservice.reconcile.informed_plan import NOTHING_SHOWN, Shown, informed
from llmservice.reconcile.knobs import knobs_in_force
from llmservice.repository.errors import RenderError, UnknownTritonVersionError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.gate_config import gate_warnings
from llmservice.repository.render import Repository, render
from llmservice.signals.canary import Canary
from llmservice.workload.build import Workload, build, repository_with
from llmservice.workload.parts import engine_image
from llmservice.workload.pinning import LiveRevision, pinned, sequences_of

MAX_FINDINGS: Final = 5
"""Findings that one message names."""

KEPT_FINDINGS: Final = 512
"""Specs whose findings are kept."""


@dataclass(frozen=True)
class Tried:
    """One replica that is to run with knobs of its own, and the repository made of them."""

    canary: Canary
    repository: Repository


@dataclass(frozen=True)
class Intent:
    """What the spec asks for, rendered. `most_replicas` is what a quota leaves for them; None where none binds.

    `plan.fits` is False only of a revision that stood before the plan said so: it goes on (docs/decisions/0003).
    """

    service: LLMService
    plan: CapacityPlan
    knobs: Knobs
    repository: Repository
    workload: Workload
    warnings: tuple[str, ...] = ()
    most_replicas: int | None = None
    tried: Tried | None = None


@dataclass(frozen=True)
class Blocked:
    """Why nothing can be made of the spec: which condition is false, its reason, and what to do.

    `service` is there where the spec could at least be read, `plan` where capacity was planned.
    """

    condition: ConditionType
    reason: Reason
    message: str
    service: LLMService | None = None
    plan: CapacityPlan | None = None
    warnings: tuple[str, ...] = ()


def intend(
    manifest: Mapping[str, Any],
    fleet: FleetDefaults,
    operator_key: bytes,
    live: Sequence[LiveRevision] = (),
    tuned: Knobs | None = None,
    *,
    seen: FleetDefaults | None = None,
    share: Share | None = None,
    shown: Shown = NOTHING_SHOWN,
    trying: Callable[[Knobs], Canary | None] = lambda _knobs: None,
) -> Intent | Blocked:
    """The intent of a stored LLMService. `live` are its revisions in the cluster: one that fits is kept.

    `tuned` are the knobs that the tuner has decided on for this spec; `trying` tells of a replica that is to have
    others than those in force. `seen` is the fleet with what its nodes say of themselves, for the plan alone: pods are
    made from the fleet as it is written. `share` is what the namespace's quota leaves for this service, `shown` what
    pods have shown of the model.
    """
    findings = _findings(_asked(manifest))
    warnings = tuple(str(finding) for finding in findings.warnings)
    if findings.errors:
        said = [str(finding) for finding in findings.errors[:MAX_FINDINGS]]
        more = len(findings.errors) - len(said)
        return _invalid(" ".join(said) + (f" And {more} more." if more else ""), warnings=warnings)
    try:
        service = LLMService.parse(dict(manifest))
    except ValidationError as error:
        return _invalid(_first_error(error), warnings=warnings)
    pool = service.spec.placement.pool
    if pool not in fleet.pools:
        text = f"spec.placement.pool: {unknown_pool_words(pool, fleet)}"
        return Blocked(ConditionType.CAPACITY_FITS, Reason.UNKNOWN_POOL, text, service, warnings=warnings)
    blind = plan_capacity(service, seen or fleet)
    plan = informed(service, seen or fleet, blind, shown)
    if plan.fits is False:
        over = any(problem.code == QUOTA_CODE for problem in plan.problems)
        kept = None if over else pinned(inputs_of(service, fleet), live)
        if kept is None or (blind.fits is None and kept.asked > 0):
            reason = Reason.QUOTA_EXCEEDED if over else Reason.DOES_NOT_FIT
            return Blocked(ConditionType.CAPACITY_FITS, reason, plan.verdict, service, plan, warnings)
        if blind.fits is False:
            plan = blind = plan_of_kept(service, blind, sequences_of(kept))
    if service.spec.tuning.bounds.engine_instances.max > 1:
        standing = pinned(inputs_of(service, fleet), live)
        blind = plan_beside_kept(service, blind, sequences_of(standing) if standing else None)
        plan = replace(plan, max_sequences=blind.max_sequences)
    warnings += tuple(str(one) for one in (*gate_warnings(service, blind), *instance_warnings(service, plan)))
    knobs = knobs_in_force(service, blind, tuned, shown=plan)
    if share is not None and plan.accelerators_per_replica:
        spec, each = service.spec, plan.accelerators_per_replica
        asked = spec.replicas if spec.replicas is not None else spec.scaling.min_replicas
        text = too_many(share, asked * each, service.metadata.namespace, pool)
        if text:
            return Blocked(ConditionType.CAPACITY_FITS, Reason.QUOTA_EXCEEDED, text, service, plan, warnings)
        most = share.allowed // each
        knobs = knobs.model_copy(update={"replicas": min(knobs.replicas, most)})
        rendered = _render(service, blind, knobs, fleet, operator_key, live, warnings, trying(knobs))
        return replace(rendered, plan=plan, most_replicas=most) if isinstance(rendered, Intent) else rendered
    return replace(_render(service, blind, knobs, fleet, operator_key, live, warnings, trying(knobs)), plan=plan)


def _asked(manifest: Mapping[str, Any]) -> str:
    """What validation looks at, as text: a pass over an unchanged spec need not evaluate a hundred rules again."""
    metadata = {"name": manifest["metadata"]["name"], "namespace": manifest["metadata"].get("namespace")}
    rest = {name: value for name, value in manifest.items() if name not in ("metadata", "status")}
    return json.dumps({**rest, "metadata": metadata}, sort_keys=True)


@lru_cache(maxsize=KEPT_FINDINGS)
def _findings(asked: str) -> Findings:
    return validate(json.loads(asked))


def _render(
    service: LLMService,
    plan: CapacityPlan,
    knobs: Knobs,
    fleet: FleetDefaults,
    operator_key: bytes,
    live: Sequence[LiveRevision],
    warnings: tuple[str, ...],
    canary: Canary | None,
) -> Intent | Blocked:
    try:
        features = TritonFeatures.for_version(engine_image(service, fleet).triton_version)
        repository = render(service, plan, knobs, features)
        workload = build(service, plan, repository, knobs, fleet, operator_key=operator_key, live=live)
        tried = None
        if canary is not None:
            other = render(service, plan, canary.knobs, features)
            tried = Tried(canary, repository_with(service, other, canary.knobs, fleet, live))
    except (RenderError, UnknownTritonVersionError) as error:
        return _invalid(str(error), service, plan, warnings)
    return Intent(service, plan, knobs, repository, workload, warnings, tried=tried)


def _invalid(
    message: str,
    service: LLMService | None = None,
    plan: CapacityPlan | None = None,
    warnings: tuple[str, ...] = (),
) -> Blocked:
    return Blocked(ConditionType.SPEC_VALID, Reason.INVALID_SPEC, message, service, plan, warnings)


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
