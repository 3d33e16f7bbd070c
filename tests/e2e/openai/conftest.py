"""SmolLM2 on one server for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from llmservice.local.tritonserver import TritonServer
from tests.openai_contract.registry import NARROW_LEVEL
from tests.serving.smollm2_service import smollm2_service

TOKEN: Final = "only-for-those-who-know"
BATCHING: Final = {
    "mode": "Continuous",
    "priorities": {"levels": 3, "default": 2},
    "queue": {"levels": [{"level": NARROW_LEVEL, "maxSize": 1}]},
}
GUARD: Final = tuple(
    f"--{option}=shared-memory:triton-llm-token={TOKEN}"
    for option in ("http-restricted-api", "grpc-restricted-protocol")
)


@pytest.fixture(scope="package")
def server(smollm2: Path) -> Iterator[TritonServer]:
    with smollm2_service(smollm2, BATCHING, max_sequences=2, arguments=GUARD) as server:
        yield server
