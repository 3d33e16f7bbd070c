"""Whether priorities hold: the first token of the highest level beside twice the load that the engine can do."""

from __future__ import annotations

import statistics
from typing import Final

from benchmarks.figures import Figures, quick
from tests.serving.overload import Overload, overload
from tests.serving.paced_service import Pace, paced_service

TOKENS: Final = 64
HIGH_PER_SECOND: Final = 2.0
SECONDS: Final = 25.0
BATCHING: Final = {"priorities": {"levels": 2, "default": 2}, "queue": {"maxSize": 64}}


async def measure_priorities(figures: Figures) -> None:
    """Both loads in turn on one service: the highest level alone, and beside an overload of the lowest."""
    pace = Pace()
    capacity = pace.tokens_per_second / TOKENS
    alone: list[Overload] = []
    beside: list[Overload] = []
    with paced_service(pace, BATCHING) as service:
        for turn in range(3 if quick() else 8):
            alone.append(await overload(service, SECONDS, 0, HIGH_PER_SECOND, TOKENS, seed=turn))
            beside.append(await overload(service, SECONDS, 2 * capacity, HIGH_PER_SECOND, TOKENS, seed=turn))
    low = sum(one.low_done for one in beside) / sum(one.seconds for one in beside)
    figures.add("priority_first_token_p50_unloaded", _percentile(alone, 50), "ms")
    figures.add("priority_first_token_p50_overload", _percentile(beside, 50), "ms")
    figures.add("priority_first_token_p99_unloaded", _percentile(alone, 99), "ms")
    figures.add("priority_first_token_p99_overload", _percentile(beside, 99), "ms")
    ratios = [_percentile([two], 99) / _percentile([one], 99) for one, two in zip(alone, beside, strict=True)]
    figures.add("priority_first_token_p99_ratio", _percentile(beside, 99) / _percentile(alone, 99), "x", 3)
    figures.add("priority_first_token_p99_ratio_worst", max(ratios), "x")  # of one turn: nearly that of its slowest two
    figures.add("priority_high_failed", sum(one.high_failed for one in [*alone, *beside]), "requests", 0)
    figures.add("priority_low_share_of_capacity", 100 * low / capacity, "%", 50, "higher")
    figures.add("priority_low_refused", sum(one.low_refused for one in beside), "requests")


def _percentile(loads: list[Overload], percent: int) -> float:
    """Of the seconds to the first token, in ms."""
    seconds = [second for load in loads for second in load.first_tokens]
    return 1000 * statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1]
