"""How right the tuner's own figures are: predicted p99 against what came, step times against the engine's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from llmservice.tuning.measured import RequestCounters, Signals, Steps
from llmservice.tuning.simulator.kinds import BatchKind
from llmservice.tuning.simulator.run import Run, Tuner
from llmservice.tuning.simulator.sensors import Faults

LEAST_COMPLETED = 300
"""Requests in a window below which its exact p99 is noise."""
LEAST_SHARE = 0.01
"""Of all steps, from which on a batch size counts as visited."""


@dataclass(frozen=True)
class Foretold:
    """Relative errors of predicted quantiles, and whether the bound held, window by window."""

    errors: tuple[float, ...]
    held: tuple[bool, ...]


def foretold(run: Run, tuner: Tuner, skip: int = 20) -> Foretold:
    """Compares each prediction with the next window, where the knobs were those predicted for. `skip` windows learn."""
    errors, held = [], []
    for index in range(skip, min(len(tuner.decisions), len(run.windows)) - 1):
        decision = tuner.decisions[index][2]
        window, following = run.windows[index], run.windows[index + 1]
        if decision.actions or following.knobs != window.knobs or window.ready != following.ready:
            continue
        if following.arrivals * (following.end - window.end) < LEAST_COMPLETED:
            continue
        places = {one.metric: place for place, one in enumerate(tuner.settings.objectives)}
        for prediction in decision.predictions:
            came = following.p99[places[prediction.metric]]
            if np.isfinite(came) and came > 0:
                errors.append(prediction.seconds / came - 1.0)
                held.append(came <= prediction.upper)
    return Foretold(tuple(errors), tuple(held))


def step_time_error(tuner: Tuner, kind: BatchKind) -> tuple[float, float]:
    """(mean, worst) relative error of t(b) over the batch sizes visited, weighed by their steps.

    NaN where the tuner learnt none.
    """
    used = tuner.state.learnt.used
    if used is None:
        return float("nan"), float("nan")
    steps: Counter[int] = Counter()
    for _, signals, _ in tuner.decisions:
        for one in _steps(signals):
            steps[one.batch_size] += round(one.count)
    total = sum(steps.values())
    visited = {size: count for size, count in steps.items() if count >= LEAST_SHARE * total}
    errors = {size: abs(used.service_time.seconds(size) / kind.batch_seconds(size) - 1.0) for size in visited}
    weighed = sum(errors[size] * count for size, count in visited.items()) / max(1, sum(visited.values()))
    return weighed, max(errors.values(), default=float("nan"))


@dataclass(frozen=True)
class _Kept(Signals):
    """Signals without step counters that remember them, for the judge."""

    hidden: tuple[Steps, ...] = ()


def _steps(signals: Signals) -> tuple[Steps, ...]:
    return signals.hidden if isinstance(signals, _Kept) else signals.steps


class _CountersAlone(Faults):
    def signals(self, at: float, signals: Signals) -> Signals:
        _ = at
        steps = signals.steps
        counters = RequestCounters(
            requests=sum(one.count * one.batch_size for one in steps),
            executions=sum(one.count for one in steps),
            compute_seconds=sum(one.batch_size * one.seconds for one in steps),
        )
        fields = {name: getattr(signals, name) for name in Signals.__dataclass_fields__}
        hidden = _Kept(**fields, hidden=steps)
        return replace(hidden, steps=(), batches=(), request_counters=counters if steps else None)


def counters_alone() -> Faults:
    """Triton's counters by request instead of the engine's by batch size (see `RequestCounters`)."""
    return _CountersAlone()
