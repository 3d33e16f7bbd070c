"""What the replica that tries other knobs did, beside all others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.signals.adapters import Adapter, Selector
from llmservice.signals.pod_window import PodWindow, added
from llmservice.signals.series import percentile
from llmservice.tuning.measured import CanaryReport
from llmservice.tuning.metric import Metric
from llmservice.tuning.settings import Objective

USUALLY_FAST: Final = 0.9
"""Share of the other replicas' requests that count as fast where no objective says what slow is."""


@dataclass(frozen=True)
class Canary:
    """The replica that tries `knobs`, by name. `objective` says which of its requests are slow; None: none is set."""

    pod: str
    knobs: Knobs
    objective: Objective | None = None


def canary_report(adapter: Adapter, canary: Canary, windows: Mapping[str, PodWindow]) -> CanaryReport | None:
    """The canary and the others over one window, from the pods that were read; None where either side was not."""
    own = windows.get(canary.pod)
    others = [window for name, window in windows.items() if name != canary.pod]
    metric = canary.objective.metric if canary.objective else Metric.LATENCY
    selector = _histogram(adapter, metric)
    if own is None or not others or selector is None:
        return None
    mine, theirs = _buckets(selector, [own]), _buckets(selector, others)
    limit = canary.objective.seconds if canary.objective else percentile(theirs, USUALLY_FAST)
    if limit is None:
        return None
    edge = _edge({**mine, **theirs}, limit)
    return CanaryReport(
        requests=_all(mine),
        slow=_all(mine) - _until(mine, edge),
        failures=_failures(adapter, [own]),
        control_requests=_all(theirs),
        control_slow=_all(theirs) - _until(theirs, edge),
        control_failures=_failures(adapter, others),
    )


def _histogram(adapter: Adapter, metric: Metric) -> Selector | None:
    return {
        Metric.LATENCY: adapter.latency,
        Metric.TIME_TO_FIRST_TOKEN: adapter.time_to_first_token,
        Metric.PER_OUTPUT_TOKEN: adapter.per_output_token,
    }[metric]


def _buckets(selector: Selector, windows: Sequence[PodWindow]) -> dict[float, float]:
    merged = added([{str(end): grown for end, grown in one.buckets(selector).items()} for one in windows])
    return {float(end): grown for end, grown in merged.items()}


def _edge(buckets: Mapping[float, float], limit: float) -> float:
    """The bucket's end that stands for the limit: the last one up to it, or the first there is."""
    ends = sorted(buckets)
    return max((end for end in ends if end <= limit), default=ends[0] if ends else limit)


def _all(buckets: Mapping[float, float]) -> float:
    return max(buckets.values(), default=0.0)


def _until(buckets: Mapping[float, float], edge: float) -> float:
    """Requests up to `edge`. A bucket that did not grow is not among them: the last one before it counts."""
    return max((grown for end, grown in buckets.items() if end <= edge), default=0.0)


def _failures(adapter: Adapter, windows: Sequence[PodWindow]) -> float:
    return sum(window.grown(selector) or 0.0 for window in windows for selector in adapter.failed)
