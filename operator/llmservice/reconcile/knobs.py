"""Which knobs are in force: seeded by the spec, kept from the status, held within the spec's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from llmservice.api.engine import Driver
from llmservice.api.knobs import SLOT_LOOKAHEAD, Knobs
from llmservice.api.operations import TuningMode
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.api.status import KnobsStatus
from llmservice.capacity.instances import held_instances


def knobs_in_force(
    service: LLMService, plan: CapacityPlan, tuned: Knobs | None = None, *, shown: CapacityPlan | None = None
) -> Knobs:
    """The knobs for this spec and status. `tuned` are those that the tuner has decided on for this very spec.

    `plan` is what pods are rendered from, `shown` the same with all that pods have shown of the model.

    The delay is the spec's until the tuner moves it; editing `maxQueueDelay` seeds it again, other edits keep what was
    learnt. Replicas are the spec's when it owns them, else what was in force, within `scaling`.
    """
    learnt = read_knobs(service.status)
    if tuned is not None:
        learnt = report_knobs(service, tuned)
    batching, scaling = service.spec.batching, service.spec.scaling
    bounds = service.spec.tuning.bounds.engine_instances
    delay = batching.max_queue_delay
    keeps = service.spec.tuning.mode is TuningMode.AUTO and learnt.seed == batching.max_queue_delay
    if keeps and learnt.max_queue_delay is not None:
        delay = learnt.max_queue_delay
    instances = learnt.engine_instances or bounds.min
    replicas = service.spec.replicas
    if replicas is None:
        wanted = learnt.replicas if learnt.replicas is not None else scaling.min_replicas
        replicas = max(scaling.min_replicas, min(scaling.max_replicas, wanted))
    return Knobs(
        max_queue_delay=delay,
        engine_instances=held_instances(service, shown or plan, instances),
        slots=_slots(plan, tuned),
        replicas=replicas,
    )


def _slots(plan: CapacityPlan, tuned: Knobs | None) -> int:
    """What the plan's sequences can use, unless the tuner wants fewer. Those in the status may be of another plan."""
    most = plan.max_sequences + SLOT_LOOKAHEAD
    return most if tuned is None else max(1, min(most, tuned.slots))


def report_knobs(service: LLMService, knobs: Knobs) -> KnobsStatus:
    """The knobs as the status keeps them. Replicas that somebody else owns are nothing learnt, and are left out.

    A stock backend has no knob but its replicas.
    """
    if service.spec.engine.driver is Driver.NVIDIA:
        return KnobsStatus(replicas=knobs.replicas if service.spec.replicas is None else None)
    return KnobsStatus(
        max_queue_delay=knobs.max_queue_delay,
        engine_instances=knobs.engine_instances,
        slots=knobs.slots,
        replicas=knobs.replicas if service.spec.replicas is None else None,
        seed=service.spec.batching.max_queue_delay,
    )


def read_knobs(status: Mapping[str, Any]) -> KnobsStatus:
    """The knobs in a raw status; empty where there are none or they cannot be read."""
    try:
        return KnobsStatus.model_validate(status.get("knobs") or {})
    except ValidationError:
        return KnobsStatus()
