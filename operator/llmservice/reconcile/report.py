"""Report: the status that a pass leaves behind, from what it saw and decided. Pure; the time is a parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from llmservice.api.model import ModelSource
from llmservice.api.operations import TuningMode
from llmservice.api.plan import CapacityPlan
from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.service import LLMService
from llmservice.api.status import (
    CapacityStatus,
    LLMServiceStatus,
    Phase,
    RevisionRef,
    RevisionStatus,
    SignalsStatus,
    TuningStatus,
)
from llmservice.kube import resources
from llmservice.kube.errors import Forbidden
from llmservice.kube.resources import Manifest
from llmservice.reconcile.conditions import Transition, read_conditions, settle, transitions, unknown
from llmservice.reconcile.decide import Decision
from llmservice.reconcile.intent import Blocked, Intent
from llmservice.reconcile.judge import State, judge, phase
from llmservice.reconcile.knobs import report_knobs
from llmservice.reconcile.shortage import report_shortage
from llmservice.reconcile.startup_phases import NO_ENGINES, startup
from llmservice.reconcile.tuning_seen import Seen
from llmservice.reconcile.weights_seen import weights_status
from llmservice.reconcile.world import World
from llmservice.signals.engine_start import EngineStart
from llmservice.workload.keeper import replica_template, revision_of_keeper
from llmservice.workload.names import search_labels


@dataclass(frozen=True)
class Report:
    """A status and what changed in it."""

    status: LLMServiceStatus
    transitions: tuple[Transition, ...]


def report(
    world: World,
    intent: Intent | Blocked,
    decision: Decision,
    signals: SignalsStatus | None,
    now: datetime,
    tuned: Seen | None = None,
    engines: Mapping[str, EngineStart] = NO_ENGINES,
) -> Report:
    """The status after this pass."""
    state = State.of(world, intent, decision, tuned)
    before = read_conditions(world.status)
    conditions = settle(judge(state), before, world.generation, now)
    doing = phase(state)
    service, plan = intent.service, intent.plan
    status = LLMServiceStatus(
        observed_generation=world.generation,
        phase=doing,
        summary=_summary(doing, state),
        conditions=conditions,
        replicas=state.existing,
        ready_replicas=state.ready,
        replicas_summary=f"{state.ready}/{state.wanted}",
        selector=",".join(f"{key}={value}" for key, value in sorted(search_labels(world.key[1]).items())),
        model=describe_source(service.spec.model.source) if service else None,
        pool=service.spec.placement.pool if service else None,
        revision=RevisionRef(name=intent.workload.revision, image=_image(intent.workload.keeper))
        if isinstance(intent, Intent)
        else None,
        revisions=_revisions(world, intent),
        knobs=report_knobs(intent.service, intent.knobs) if isinstance(intent, Intent) else None,
        signals=signals,
        tuning=_tuning(tuned.status if tuned else _tuning_before(world, service), intent),
        startup=startup(world.pods, engines),
        weights=weights_status(world, service.spec.model.source) if service else None,
        capacity=report_capacity(plan) if plan else None,
        shortage=report_shortage(state.finding, world.pool),
        warnings=list(intent.warnings),
    )
    return Report(_keeping_old(status, world, intent), tuple(transitions(before, conditions)))


def report_blindness(world: World, error: Forbidden, now: datetime) -> Report:
    """The status where the operator may not read the children: that it knows nothing, and why."""
    text = f"the operator may not read what belongs to the service: check its role. Kubernetes says: {error.message}"
    before = read_conditions(world.status)
    judgements = [unknown(kind, Reason.FORBIDDEN, text) for kind in ConditionType]
    conditions = settle(judgements, before, world.generation, now)
    said = {
        "summary": Reason.FORBIDDEN.value,
        "observed_generation": world.generation,
        "conditions": conditions,
    }
    status = (_stored(world) or LLMServiceStatus()).model_copy(update=said)
    return Report(status, tuple(transitions(before, conditions)))


def _tuning_before(world: World, service: LLMService | None) -> TuningStatus | None:
    """What the process before this one decided, until this one has."""
    old = _stored(world)
    if old is None or service is None or service.spec.tuning.mode is TuningMode.OFF:
        return None
    return old.tuning


def _tuning(status: TuningStatus | None, intent: Intent | Blocked) -> TuningStatus | None:
    """The tuner's part, without a canary that this pass knows to be over: it was decided a window ago."""
    if status is None or status.canary is None or (isinstance(intent, Intent) and intent.tried):
        return status
    return status.model_copy(update={"canary": None})


def status_manifest(world: World, status: LLMServiceStatus) -> Manifest:
    """What is applied to `/status`. The uid makes sure that a service of the same name made later is not meant."""
    namespace, name = world.key
    return {
        "apiVersion": resources.LLM_SERVICE.api_version,
        "kind": resources.LLM_SERVICE.kind,
        "metadata": {"name": name, "namespace": namespace, "uid": world.uid},
        "status": status.manifest(),
    }


def differs(status: LLMServiceStatus, world: World) -> bool:
    """Whether the stored status says anything else; the time of the last measurement alone is not worth a write.

    What this operator does not know (another writer's condition, a newer operator's field) is none of its business.
    """
    stored = _stored(world)
    return stored is None or _without_time(status.manifest()) != _without_time(stored.manifest())


def describe_source(source: ModelSource) -> str:
    """The model in short, for a column."""
    if source.hugging_face:
        return source.hugging_face.repo
    if source.package:
        return source.package.name
    if source.pvc:
        return ":".join(filter(None, (source.pvc.claim_name, source.pvc.path)))
    if source.s3:
        return f"s3://{source.s3.bucket}/{source.s3.prefix}"
    if source.gcs:
        return f"gs://{source.gcs.bucket}/{source.gcs.prefix}"
    if source.oci:
        return source.oci.reference
    return source.host_path.path if source.host_path else ""


def report_capacity(plan: CapacityPlan) -> CapacityStatus:
    """The plan as the status shows it; what is not known is left out."""
    return CapacityStatus(
        fits=plan.fits,
        accelerator=plan.accelerator,
        accelerators_per_replica=plan.accelerators_per_replica,
        nodes=plan.nodes if plan.nodes > 1 else None,
        max_sequences=plan.max_sequences,
        max_length=plan.max_length or None,
        weights_bytes=plan.weights_bytes or None,
        adapter_bytes=(plan.memory.adapters or None) if plan.memory else None,
        draft_bytes=(plan.memory.draft or None) if plan.memory else None,
        kv_tokens=plan.kv_tokens or None,
        kv_bytes_per_token=plan.kv_bytes_per_token or None,
        planned_length=plan.planned_length or None,
        fitting_sequences=plan.fitting_sequences if plan.planned_length else None,
        instances=plan.instances if plan.planned_length else None,
        reload_memory_percent=plan.reload_percent if plan.memory else None,
        smallest_pool=plan.smallest_pool or None,
        gains=[str(gain) for gain in plan.gains],
        remedies=list(plan.remedies),
        message=plan.reason or None,
    )


def _summary(doing: Phase, state: State) -> str:
    """The phase, or what blocks it: the column people look at first."""
    finding = state.finding
    if doing in {Phase.SERVING, Phase.IDLE, Phase.DELETING} and not state.blocked:
        return doing.value
    if doing is Phase.SCALING and state.ready >= state.wanted:
        return doing.value  # what one of the pods too many lacks is of no interest
    return finding.reason.value if finding and finding.reason != Reason.STARTING else doing.value


def _revisions(world: World, intent: Intent | Blocked) -> list[RevisionStatus]:
    current = intent.workload.revision if isinstance(intent, Intent) else None
    found = []
    for manifest in world.keepers.values():
        name = revision_of_keeper(manifest)
        pods = [pod for pod in world.pods if pod.revision == name and pod.alive]
        found.append(
            RevisionStatus(
                name=name,
                image=_image(manifest),
                replicas=len(pods),
                ready_replicas=sum(pod.ready for pod in pods),
                current=name == current,
            )
        )
    return sorted(found, key=lambda revision: (not revision.current, revision.name))


def _image(keeper: Manifest) -> str:
    """Triton's, which is the first container of a replica's pod."""
    return str(replica_template(keeper)["spec"]["containers"][0]["image"])


def _keeping_old(status: LLMServiceStatus, world: World, intent: Intent | Blocked) -> LLMServiceStatus:
    """A blocked pass knows no revision, plan or knobs: what was known before still holds, for old pods still serve."""
    if isinstance(intent, Intent):
        return status
    old = _stored(world)
    if old is None:
        return status
    return status.model_copy(
        update={
            "revision": old.revision,
            "knobs": old.knobs,
            "model": status.model or old.model,
            "pool": status.pool or old.pool,
        }
    )


def _stored(world: World) -> LLMServiceStatus | None:
    """The stored status, without conditions of others; None where it cannot be read."""
    kinds = {kind.value for kind in ConditionType}
    known = [one for one in world.status.get("conditions") or () if one.get("type") in kinds]
    try:
        return LLMServiceStatus.model_validate({**world.status, "conditions": known})
    except ValidationError:
        return None


def _without_time(status: dict[str, Any]) -> dict[str, Any]:
    signals = {name: value for name, value in (status.get("signals") or {}).items() if name != "observedAt"}
    rest = {name: value for name, value in status.items() if name != "signals"}
    return {**rest, "signals": signals} if signals else rest
