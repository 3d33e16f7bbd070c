"""Blocks belong to one table at a time, and none is ever lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmtorch.block_manager import BlockManager

pytestmark = pytest.mark.unit

ACTIONS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40)), max_size=60)


def test_a_table_grows_by_whole_blocks() -> None:
    blocks = BlockManager(num_blocks=4, block_size=16)
    table: list[int] = []
    assert blocks.grow(table, 17)
    assert len(table) == 2
    assert blocks.grow(table, 32)
    assert len(table) == 2
    assert blocks.num_free == 2


def test_a_table_that_cannot_grow_stays_as_it_is() -> None:
    blocks = BlockManager(num_blocks=2, block_size=16)
    table: list[int] = []
    assert blocks.grow(table, 16)
    before = list(table)
    assert not blocks.grow(table, 33)
    assert table == before
    assert blocks.num_free == 1


@given(ACTIONS)
def test_like_a_count_of_what_each_table_needs(actions: list[tuple[int, int]]) -> None:
    blocks = BlockManager(num_blocks=12, block_size=4)
    tables: list[list[int]] = [[] for _ in range(5)]
    for index, tokens in actions:
        if tokens == 0:
            blocks.release(tables[index])
        else:
            needed = max(len(tables[index]), -(-tokens // 4))
            fits = needed - len(tables[index]) <= blocks.num_free
            assert blocks.grow(tables[index], tokens) is fits
            assert not fits or len(tables[index]) == needed
        taken = [block for table in tables for block in table]
        assert len(set(taken)) == len(taken)
        assert set(taken) <= set(range(12))
        assert blocks.num_free == 12 - len(taken)
