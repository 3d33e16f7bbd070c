"""Zero, missing and stale are three things."""

from __future__ import annotations

import pytest

from llmservice.tuning.measured import MISSING, Measured, Replicas, Validity

pytestmark = pytest.mark.unit


def test_zero_is_known_and_missing_and_stale_are_not() -> None:
    assert Measured.of(0.0).validity is Validity.ZERO
    assert Measured.of(0.0).known == 0.0
    assert MISSING.known is None
    assert Measured.stale(3.0, age=90.0).known is None
    assert Measured.stale(3.0, age=90.0).value == 3.0


def test_replicas_on_their_way_count_as_supply() -> None:
    assert Replicas(ready=2, starting=(5.0,), pending=(60.0, 61.0)).supplied == 5
