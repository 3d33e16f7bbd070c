"""Python and a real API server agree on what is valid, for manifests that nobody thought of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from llmservice.api.validation import validate
from tests.cluster.api.conftest import Refusal
from tests.mutations import nearly_right_manifests

pytestmark = pytest.mark.cluster


@settings(
    max_examples=200,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(document=nearly_right_manifests())
def test_both_take_and_refuse_the_same(refusal: Refusal, document: dict[str, Any]) -> None:
    said = refusal(document)
    assert bool(said) == bool(validate(document).errors), said
