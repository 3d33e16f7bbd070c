"""How long an engine loaded and warmed up, by its own gauges. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from llmservice.signals.adapters import Adapter, Selector
from llmservice.signals.series import PodHistory


@dataclass(frozen=True)
class EngineStart:
    """Seconds. Of several instances, which start side by side, the slowest."""

    load_seconds: float
    warm_up_seconds: float


def engine_start(history: PodHistory, adapter: Adapter) -> EngineStart | None:
    """What the pod's series say; None for an engine that does not tell when it had loaded."""
    load = _newest(history, adapter.load_seconds)
    if load is None:
        return None
    return EngineStart(load, _newest(history, adapter.warm_up_seconds) or 0.0)


def _newest(history: PodHistory, selector: Selector | None) -> float | None:
    if selector is None:
        return None
    values = [points[-1].value for series, points in history.points.items() if series.name == selector.name and points]
    return max(values, default=None)
