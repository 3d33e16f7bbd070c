"""What is known of a service's weights: from its pods, else from the status, which outlives them. Pure."""

from __future__ import annotations

import json

from pydantic import ValidationError

from llmservice.api.model import ModelSource
from llmservice.api.status import WeightsStatus
from llmservice.capacity.architecture import Model
from llmservice.capacity.config_json import UnknownArchitectureError, parse_config
from llmservice.capacity.models import find_model, source_name
from llmservice.diagnose.pod import Pod
from llmservice.diagnose.weights_progress import read_progress
from llmservice.diagnose.weights_report import WeightsReport, weights_report
from llmservice.reconcile.world import World
from llmservice.workload.names import WEIGHTS_CONTAINER

FETCHING, WAITING, READY, FAILED = "Fetching", "Waiting", "Ready", "Failed"


def weights_status(world: World, source: ModelSource) -> WeightsStatus | None:
    """The status of the weights of `source`; None where nothing is known of them."""
    known = _known(world, source)
    alive = [pod for pod in world.pods if pod.alive]
    moving = [found for pod in reversed(alive) if (found := _moving(world, pod)) is not None]
    if not moving:
        return known
    kept = known or WeightsStatus(source=source.key)
    figures = ("percent", "total_bytes", "bytes_per_second", "seconds_left", "progress")
    return kept.model_copy(update={**dict.fromkeys(figures), **moving[0]})


def inspected_model(world: World, source: ModelSource) -> Model | None:
    """The model, as its own files describe it, where the catalogue has none; None where nobody has read them."""
    if find_model(source) is not None:
        return None
    known = _known(world, source)
    if known is None or not known.config:
        return None
    try:
        return parse_config(source_name(source), json.loads(known.config), known.parameters)
    except (UnknownArchitectureError, ValueError):
        return None


def _known(world: World, source: ModelSource) -> WeightsStatus | None:
    """The newest report of this source, else what an earlier one left in the status."""
    for pod in reversed(world.pods):
        report = weights_report(pod)
        if report is not None and report.source == source.key:
            return _from_report(report)
    try:
        stored = WeightsStatus.model_validate(world.status.get("weights") or {})
    except ValidationError:
        return None
    return stored if stored.source == source.key and stored.config else None


def _from_report(report: WeightsReport) -> WeightsStatus:
    return WeightsStatus(
        source=report.source,
        phase=READY,
        revision=report.revision,
        total_bytes=report.size,
        transferred_bytes=report.transferred,
        parameters=report.parameters,
        config=json.dumps(report.config, separators=(",", ":"), sort_keys=True) if report.config else None,
    )


def _moving(world: World, pod: Pod) -> dict[str, object] | None:
    """Phase and progress of a pod whose step has begun and is not over."""
    weights = pod.init(WEIGHTS_CONTAINER)
    if weights is None or pod.ready:
        return None
    if weights.failure is not None and not weights.running_since:
        return {"phase": FAILED}
    if not weights.running_since:
        return None
    lines = world.weights_logs.get(pod.name, "").splitlines()
    progress = read_progress(lines[-1]) if lines else None
    if progress is None:
        return {"phase": FETCHING}
    return {
        "phase": WAITING if progress.phase == "wait" else FETCHING,
        "percent": progress.percent,
        "total_bytes": progress.total_bytes,
        "bytes_per_second": progress.bytes_per_second,
        "seconds_left": progress.seconds_left,
        "progress": progress.figures or None,
    }
