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

    def measured() -> tuple[Manifest, list[str]] | None:
        """Status and columns of one moment: the window moves on between two looks."""
        signals: Manifest = service.status().get("signals") or {}
        row = kube("-n", service.namespace, "get", "llm", service.name, "--no-headers").split()
        whole = signals.get("tokensPerSecond") and signals.get("timeToFirstTokenP99") in row
        return (signals, row) if whole else None

    with kube.forward(service.namespace, f"service/{service.name}", 8000) as (port,):
        with loaded(port, service.name, seconds=5) as tally:
            pass
        assert (tally.failed, tally.short) == (0, 0), tally.errors[:3]
    found = eventually(measured, "figures of the load in status", 120)
    assert found
    signals, row = found
    assert signals["queueDepth"] == 0
    assert row[4] == "0"
    assert row[5] == signals["timeToFirstTokenP99"]
    assert float(row[6]) > 0
