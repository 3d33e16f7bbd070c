"""KAITO's rule as it is written down, and the table of the docs, which is what the benchmark prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.capacity_peers import GIB, kaito_gpus, side_by_side

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[3] / "docs" / "capacity.md"


def test_the_docs_have_the_table_that_the_benchmark_prints() -> None:
    assert side_by_side() in DOCS.read_text()


@pytest.mark.parametrize(
    ("weights", "memory_gib", "gpus"),
    [
        (14 * GIB, 24, 1),  # 1.02 · 14 of (0.84 · 24 - 2.3) / 1.05 = 17.0
        (17 * GIB, 24, 2),
        (1 * GIB, 2, None),  # 0.84 · 2 is less than 2.3
    ],
)
def test_kaitos_rule(weights: int, memory_gib: int, gpus: int | None) -> None:
    assert kaito_gpus(weights, 0, 2048, memory_gib) == gpus
