"""Where nothing is batched (mode None) another instance is the only knob of a replica."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmservice.api.batching import BatchingMode
from llmservice.api.knobs import Knobs
from llmservice.tuning.measured import Batches, Measured, Quantiles, Signals, Steps
from llmservice.tuning.metric import Metric
from llmservice.tuning.settings import Bounds, Limits, Objective
from tests.unit.tuning.windows import WINDOW, Service, frame, window

pytestmark = pytest.mark.unit
SECONDS = 0.06
"""Of one request, alone."""


def single(rate: float, in_force: Knobs) -> Signals:
    """A window of an engine that computes one request at a time."""
    load = rate * SECONDS / in_force.engine_instances
    seconds = SECONDS * (1 + load / (2 * (1 - load)))  # Pollaczek and Khinchine
    counted = rate * WINDOW
    return replace(
        window(rate, in_force),
        steps=(Steps(1, counted, counted * SECONDS),),
        batches=(Batches(1, counted),),
        latency=Quantiles(mean=Measured.of(seconds, samples=round(counted))),
        running=Measured.of(load),
    )


@pytest.mark.parametrize(("rate", "moves"), [(13.0, [("engineInstances", 1.0, 2.0)]), (3.0, [])])
def test_an_instance_is_added_where_one_misses_the_objective(
    rate: float, moves: list[tuple[str, float, float]]
) -> None:
    settings = frame(
        batching=BatchingMode.NONE,
        objectives=(Objective(Metric.LATENCY, 0.99, 0.5),),
        bounds=Bounds(max_replicas=1, max_instances=2),
        limits=Limits(max_sequences=1, instances_in_memory=2),
        delay_binds=False,
    )
    service = Service(settings=settings, knobs=Knobs(slots=3, replicas=1))
    for _ in range(10):
        service.see(single(rate, service.knobs))
    assert service.moves == moves
