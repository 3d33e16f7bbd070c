"""The engines, objectives and settings that TRITUNE is played with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.kinds import DYNAMIC, LLAMA_8B_A100, BatchKind
from llmservice.tuning.simulator.load import Load, RateSeries
from llmservice.tuning.simulator.plant import PlantTimes
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.series import mend, parse_trace
from llmservice.tuning.simulator.standins import days

TIGHT: Final = (Objective(Metric.LATENCY, 0.99, 5 * DYNAMIC.batch_seconds(1)),)
NORMAL: Final = (Objective(Metric.LATENCY, 0.99, 10 * DYNAMIC.batch_seconds(1)),)
"""Kind A: five and ten times what one request alone takes."""
CHAT: Final = (
    Objective(Metric.TIME_TO_FIRST_TOKEN, 0.99, 2.0),
    Objective(Metric.PER_OUTPUT_TOKEN, 0.99, 0.060),
)
"""Kind B."""
FIRST_TOKEN: Final = (Objective(Metric.TIME_TO_FIRST_TOKEN, 0.99, 2.0),)


TENTH: Final = BatchKind(overhead=0.1, per_request=0.01)
"""Kind A at a tenth of its pace: the same queueing with a tenth of the requests, for long runs."""
TENTH_NORMAL: Final = (Objective(Metric.LATENCY, 0.99, 10 * TENTH.batch_seconds(1)),)


def dynamic(
    load: Load,
    objectives: tuple[Objective, ...] = NORMAL,
    *,
    kind: BatchKind = DYNAMIC,
    lead: float = 180.0,
    most: int = 8,
    least: int = 1,
    seed: int = 0,
) -> Question:
    """A question about kind A."""
    return Question(
        kind,
        load,
        objectives,
        max_replicas=most,
        min_replicas=least,
        max_delay=objectives[0].seconds / 4,
        times=PlantTimes(cold_start=lead),
        seed=seed,
    )


def tokens(
    load: Load, objectives: tuple[Objective, ...] = CHAT, *, lead: float = 180.0, most: int = 16, seed: int = 0
) -> Question:
    """A question about kind B."""
    return Question(LLAMA_8B_A100, load, objectives, max_replicas=most, times=PlantTimes(cold_start=lead), seed=seed)


def rate_series(traces: Path | None, seed: int = 0) -> dict[str, RateSeries]:
    """The 14-day series to play, mended: every column of `servegen_rates_10min.csv`, or two seeded stand-ins."""
    path = traces / "servegen_rates_10min.csv" if traces else None
    if path is None or not path.is_file():
        return {f"stand-in-{number}": days(seed + number) for number in (1, 2)}
    text = path.read_text()
    found = {}
    for column in text.split("\n", 1)[0].strip().split(",")[1:]:
        series = parse_trace(text, column)
        if isinstance(series, RateSeries):
            found[column.removeprefix("language_")] = mend(series)
    return found
