"""Clients that leave, wait only so long and are of all levels: every request ends, and every slot comes back."""

from __future__ import annotations

import pytest

from tests.serving.eventually import PATIENCE_S, eventually
from tests.serving.misuse import BATCHING, misuse
from tests.serving.paced_service import Pace, paced_service

pytestmark = pytest.mark.e2e


async def test_a_thousand_random_requests_leave_nothing_behind() -> None:
    with paced_service(Pace(step_seconds=0.004, sequence_seconds=0.0001), BATCHING) as service:
        result = await misuse(service.server.http_url, 1000, seed=7)

        assert result.wrong == []
        assert result.stuck == 0
        assert result.requests == 1000
        assert {"completed", "left", "deadline", "refused"} == result.ends.keys()
        await eventually(lambda: service.held_slots() == 0, PATIENCE_S, "every slot free")
        await eventually(lambda: service.metric("llm_gate_held_requests") == 0, PATIENCE_S, "nobody waits")
