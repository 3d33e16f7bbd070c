"""What the gate costs: the paced engine behind it, beside the same engine in the model that clients call."""

from __future__ import annotations

import statistics
from typing import Final

from benchmarks.figures import Figures, quick
from tests.serving.paced_service import Pace, PacedService, paced_service, without_a_gate
from tests.serving.streams import stream_many

STREAMS: Final = 32
TOKENS: Final = 64
FEW_TOKENS: Final = 4
LONE_REQUESTS: Final = 20


async def measure_cost(gated: PacedService, figures: Figures) -> None:
    """Throughput of 32 streams over 16 sequences, and the first token of a lone one, with and without in turn."""
    assert gated.pace == Pace(), "the engine without a gate has no parameters: it keeps the pace of its defaults"
    rates: dict[str, list[float]] = {"gated": [], "alone": []}
    first: dict[str, list[float]] = {"gated": [], "alone": []}
    with paced_service(gated.pace, lay_out=without_a_gate) as alone:
        for turn in range(4 if quick() else 12):
            pair = [("gated", gated), ("alone", alone)]
            for name, service in pair if turn % 2 else reversed(pair):
                load = await stream_many(service.server.http_url, STREAMS, 4 * STREAMS, TOKENS)
                lone = await stream_many(service.server.http_url, 1, LONE_REQUESTS, FEW_TOKENS)
                assert load.whole, load.errors
                assert lone.whole, lone.errors
                rates[name].append(load.tokens_per_second)
                first[name].append(1000 * statistics.median(lone.first_tokens))
    losses = [100 * (1 - with_it / without) for with_it, without in zip(rates["gated"], rates["alone"], strict=True)]
    delays = [with_it - without for with_it, without in zip(first["gated"], first["alone"], strict=True)]
    figures.add("gate_alone_tokens_per_second", statistics.median(rates["alone"]), "tokens/s")
    figures.add("gate_throughput_cost", statistics.median(losses), "%", 2)
    figures.add("gate_throughput_cost_spread", _spread(losses), "%")
    figures.add("gate_first_token_cost", statistics.median(delays), "ms", 1)
    figures.add("gate_first_token_cost_spread", _spread(delays), "ms")


def _spread(values: list[float]) -> float:
    """Half the distance between the quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2
