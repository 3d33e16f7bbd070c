"""After load, the columns say what was measured."""

from __future__ import annotations

import pytest

from tests.e2e.main_job.conftest import Started
from tests.e2e.main_job.kube import Kube, Manifest
from tests.e2e.main_job.under_load import loaded
from tests.e2e.main_job.waiting import eventually

pytestmark = pytest.mark.e2e


def test_queue_first_token_and_rate_appear_after_load(smollm2: Started, kube: Kube) -> None:
    service = smollm2.service

    def measured() -> Manifest:
        signals: Manifest = service.status().get("signals") or {}
        return signals if signals.get("tokensPerSecond") and "timeToFirstTokenP99" in signals else {}

    with kube.forward(service.namespace, f"service/{service.name}", 8000) as (port,):
        with loaded(port, service.name, seconds=5) as tally:
            pass
        assert (tally.failed, tally.short) == (0, 0), tally.errors[:3]
    signals = eventually(measured, "figures of the load in status", 75)
    assert signals["queueDepth"] == 0
    row = kube("-n", service.namespace, "get", "llm", service.name, "--no-headers").split()
    assert row[4] == "0"
    assert row[5] == signals["timeToFirstTokenP99"]
    assert float(row[6]) > 0
