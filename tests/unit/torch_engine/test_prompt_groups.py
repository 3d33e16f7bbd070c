"""Prompts of like length attend together, and see what they see alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llmtorch.attention import paged_attention
from llmtorch.kv_cache import LayerCache
from llmtorch.prompt_groups import LIKE, PromptGroup, like_prompts
from llmtorch.scheduler import Chunk
from llmtorch.step_batch import build_step
from tests.unit.torch_engine.scheduling import BLOCK, sequence
from tests.unit.torch_engine.tiny import engine_on, greedy, run

pytestmark = pytest.mark.unit

BUCKETS = (8, 16, 64)
CPU = torch.device("cpu")


@given(st.lists(st.integers(2, 100), max_size=12).map(sorted), st.sets(st.integers(1, 90)).map(sorted))
def test_each_prompt_is_in_one_range_with_its_like(lengths: list[int], buckets: list[int]) -> None:
    ranges = like_prompts(lengths, buckets)
    assert [at for start, end in ranges for at in range(start, end)] == list(range(len(lengths)))
    for start, end in ranges:
        if end - start > 1:
            assert lengths[start] >= LIKE * lengths[end - 1]
            ends = [next((bucket for bucket in buckets if length <= bucket), None) for length in lengths[start:end]]
            assert len(set(ends)) == 1
            assert ends[0] is not None


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from([0, 0, 3])), min_size=1, max_size=8))
@pytest.mark.parametrize("window", [None, 12])
def test_together_as_alone(window: int | None, parts: list[tuple[int, int]]) -> None:
    """Chunks of some tokens after some that are in the cache already."""
    torch.manual_seed(len(parts))
    chunks, used = [], 0
    for key, (count, computed) in enumerate(parts):
        one = sequence(key, count + computed)
        one.num_computed = computed
        needed = -(-(count + computed) // BLOCK)
        one.blocks = list(range(used, used + needed))
        used += needed
        chunks.append(Chunk(one, count))
    blocks = torch.randn(used, BLOCK, 4, 8)
    rows = sum(count for count, _ in parts)
    grouped, alone = (build_step(chunks, BLOCK, CPU, torch.float32, (window,), some) for some in (BUCKETS, ()))
    assert grouped.token_ids.tolist() == alone.token_ids.tolist()
    assert not any(isinstance(one, PromptGroup) for one in alone.views[window].prefills)
    q, kv = torch.randn(rows, 4, 8), torch.randn(rows, 4, 8)
    together, single = (paged_attention(q, kv, LayerCache(blocks.clone()), step, window) for step in (grouped, alone))
    torch.testing.assert_close(together, single)


def test_the_engine_groups_prompts_unless_told_otherwise(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def watched(*arguments: object) -> object:
        step = build_step(*arguments)  # type: ignore[arg-type]
        seen.append(sum(isinstance(one, PromptGroup) for one in step.views[None].prefills))
        return step

    monkeypatch.setattr("llmtorch.runner.build_step", watched)
    requests = [greedy(key, "x" * length, max_tokens=3) for key, length in enumerate((30, 31, 32, 15))]
    answers = run(engine_on(tiny_llama, kernels="torch"), *requests)
    assert seen[0] == 1
    seen.clear()
    others = run(engine_on(tiny_llama, kernels="torch", length_buckets=()), *requests)
    assert sum(seen) == 0
    assert [answer.tokens for answer in others.values()] == [answer.tokens for answer in answers.values()]
