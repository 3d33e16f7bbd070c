"""Blocks are counted, none is ever lost, and what they hold is found as long as there is room."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmtorch.block_manager import BlockManager, extend_names
from tests.unit.torch_engine.scheduling import check_blocks

pytestmark = pytest.mark.unit

ACTIONS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40)), max_size=60)
PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=6), min_size=1, max_size=25)


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


@settings(deadline=None)
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
        check_blocks(blocks, tables)


@settings(deadline=None)
@given(PROMPTS, st.integers(6, 9), st.integers(1, 3))
def test_what_is_found_is_what_was_least_recently_used_last(prompts: list[list[int]], size: int, held: int) -> None:
    """Blocks of one token each; a prompt is found as far as the obvious cache, a list of prefixes, still has it."""
    blocks = BlockManager(size, block_size=1)
    cached: list[tuple[int, ...]] = []
    live: list[tuple[list[int], list[tuple[int, ...]]]] = []
    for prompt in prompts:
        while len(live) == held or sum(len(table) for table, _ in live) + len(prompt) > size:
            table, prefixes = live.pop(0)
            blocks.release(table)
            others = {prefix for _, more in live for prefix in more}
            idle = [prefix for prefix in reversed(prefixes) if prefix in cached and prefix not in others]
            cached = [prefix for prefix in cached if prefix not in idle] + idle
        prefixes = [tuple(prompt[: at + 1]) for at in range(len(prompt))]
        found = next((at for at, prefix in enumerate(prefixes) if prefix not in cached), len(prefixes))
        names: list[bytes] = []
        extend_names(names, prompt, 1)
        table = []
        assert blocks.reuse(table, names) == found
        assert blocks.grow(table, len(prompt))
        live.append((table, prefixes))
        taken = {block for table, _ in live for block in table}
        pinned = {prefix for _, more in live for prefix in more}
        idle = [prefix for prefix in cached if prefix not in pinned]
        while len(taken) + len(idle) > size:
            cached.remove(idle.pop(0))
        for at in range(found, len(prompt)):
            blocks.keep(table[at], names[at])
            if prefixes[at] not in cached:
                cached.append(prefixes[at])
        check_blocks(blocks, [table for table, _ in live])
    assert len(blocks._by_name) == len(cached)


def test_names_stand_for_all_tokens_before_them() -> None:
    names: list[bytes] = []
    extend_names(names, [1, 2, 3, 4, 5], 2)
    assert len(names) == 2
    other: list[bytes] = []
    extend_names(other, [9, 2, 3, 4], 2)
    assert names[1] != other[1]
    longer = list(names)
    extend_names(longer, [1, 2, 3, 4, 5, 6], 2)
    assert longer[:2] == names
    assert len(longer) == 3


def test_without_prefix_caching_nothing_is_kept() -> None:
    blocks = BlockManager(2, 1, prefix_caching=False)
    table: list[int] = []
    blocks.grow(table, 1)
    blocks.keep(table[0], b"name")
    blocks.release(table)
    assert blocks.reuse([], [b"name"]) == 0
