"""The MODEL column."""

from __future__ import annotations

import pytest

from llmservice.api.model import ModelSource
from llmservice.reconcile.report import describe_source

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("claim", "shown"),
    [({"claimName": "weights"}, "weights"), ({"claimName": "weights", "path": "chat/13b"}, "weights:chat/13b")],
)
def test_a_claim_is_shown_with_its_path_where_there_is_one(claim: dict[str, str], shown: str) -> None:
    assert describe_source(ModelSource.model_validate({"pvc": claim})) == shown
