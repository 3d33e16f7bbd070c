"""Levels, limits and timeouts on a real server whose engine is full of endless answers: nothing moves by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from tests.serving.eventually import PATIENCE_S, eventually
from tests.serving.paced_service import Pace, PacedService, paced_service
from tests.serving.streams import GrpcStream

pytestmark = pytest.mark.e2e

ENDLESS = 1_000_000
BATCHING = {
    "priorities": {"levels": 2, "default": 2},
    "queue": {"levels": [{"level": 2, "maxSize": 3}, {"level": 1, "timeout": "300ms"}]},
}
LOW_INSIDE = 7
"""Of 8 sequences one is kept for the higher level."""


def answered(streams: list[GrpcStream]) -> int:
    """How many of them have had a token."""
    return sum(not stream.responses.empty() for stream in streams)


@pytest.fixture(scope="module")
def service() -> Iterator[PacedService]:
    with paced_service(Pace(max_sequences=8), BATCHING) as running:
        yield running


async def test_levels_and_limits_hold_while_the_engine_is_full(service: PacedService) -> None:
    address = service.server.grpc_address
    with contextlib.ExitStack() as open_streams:

        def stream(level: int) -> GrpcStream:
            return open_streams.enter_context(GrpcStream(address, ENDLESS, priority_level=level))

        low = [stream(2) for _ in range(LOW_INSIDE + 3)]
        await eventually(lambda: service.metric("llm_gate_held_requests", level="2") == 3, PATIENCE_S, "three wait")
        assert service.held_slots() == LOW_INSIDE

        with pytest.raises(InferenceServerException, match="Exceeds maximum queue size of priority level 2"):
            stream(2).text()
        high = [stream(1) for _ in range(service.total_slots() - LOW_INSIDE)]
        taken = "one has the sequence that was kept, the others take those of the lower level"
        await eventually(lambda: answered(high) == len(high), PATIENCE_S, taken)
        await eventually(lambda: service.free_slots() == 0, PATIENCE_S, "the higher level takes every slot")
        with pytest.raises(InferenceServerException, match=r"Request timeout expired: it waited \d+\.\d s for a slot"):
            stream(1).text()

        for reason, level in (("full", "2"), ("timeout", "1")):
            await eventually(
                lambda reason=reason, level=level: (  # type: ignore[misc]
                    service.metric("llm_gate_rejected_total", reason=reason, level=level) == 1
                ),
                PATIENCE_S,
                f"a refusal because of {reason}",
            )
        await eventually(lambda: answered(low) == LOW_INSIDE, PATIENCE_S, "whoever came first has begun")
        counted = "llm_gate_queue_seconds_count"
        await eventually(
            lambda: service.metric(counted, level="2") == LOW_INSIDE, PATIENCE_S, "only who had a slot is counted"
        )
    await eventually(lambda: service.held_slots() == 0, PATIENCE_S, "every slot free")
    await eventually(
        lambda: service.metric("llm_gate_requests_total", outcome="rejected") == 2, PATIENCE_S, "two refused"
    )
