"""How right the tuner's own figures are: predicted p99 against what came, step times against the engine's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmservice.tuning.simulator.run import Run, Tuner

LEAST_COMPLETED = 300
"""Requests in a window below which its exact p99 is noise."""


@dataclass(frozen=True)
class Foretold:
    """Relative errors of predicted quantiles, and whether the bound held, window by window."""

    errors: tuple[float, ...]
    held: tuple[bool, ...]

    @property
    def median(self) -> float:
        """Median of the absolute errors; NaN without predictions."""
        return float(np.median(np.abs(self.errors))) if self.errors else float("nan")

    @property
    def coverage(self) -> float:
        """Share of windows below the bound; NaN without predictions."""
        return float(np.mean(self.held)) if self.held else float("nan")


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
