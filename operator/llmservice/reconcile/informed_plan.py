"""The capacity plan once pods have shown what the model is, where the catalogue does not know it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.model import ModelSource
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.architecture import Model
from llmservice.capacity.plan import plan as plan_capacity


@dataclass(frozen=True)
class Shown:
    """What the cluster shows: `model` gives what the files of a source say, `serving` that a replica is ready."""

    model: Callable[[ModelSource], Model | None]
    serving: bool = False


NOTHING_SHOWN: Final = Shown(model=lambda _: None)


def informed(service: LLMService, fleet: FleetDefaults, blind: CapacityPlan, shown: Shown) -> CapacityPlan:
    """`blind` with verdict and figures of the model that was seen; `blind` itself where none was.

    What pods are rendered from stays the blind plan's: pods that a spec has started are not replaced because more is
    known of their model now. What serves has been proven to fit, whatever a plan says.
    """
    model = shown.model(service.spec.model.source) if blind.fits is None else None
    if model is None:
        return blind
    found = plan_capacity(service, fleet, model)
    reason, fits = found.reason, found.fits
    if fits is False and shown.serving:
        fits, reason = None, f"By the plan it does not fit, and yet it serves. {reason}"
    elif fits and service.spec.batching.max_sequences is None and found.max_sequences > blind.max_sequences:
        reason = (
            f"{reason} Planned before its files were seen, {blind.max_sequences} sequences run at once: write "
            f"spec.batching.maxSequences: {found.max_sequences} for all that fit."
        )
    return replace(found, fits=fits, reason=reason, max_sequences=blind.max_sequences)
