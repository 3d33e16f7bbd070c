"""Greedy tokens are those of transformers, whatever the batch, the budget and the size of the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.torch_engine.tiny import byte_tokenizer, engine_on, greedy, make_model, run

pytestmark = pytest.mark.unit

PROMPTS = ("Once upon a time", "a", "The quick brown fox jumps over the lazy dog", "1, 2, 3,", "äöü €", "x" * 50)
KERNELS = ("native", "torch")
FAMILIES = ("llama", "llama3", "mistral", "mistral-window", "qwen2", "qwen2-window", "qwen3")


@cache
def expected(family: str) -> tuple[list[int], ...]:
    model: Any = make_model(family)
    answers = []
    for prompt in PROMPTS:
        ids = torch.tensor([byte_tokenizer().encode(prompt).ids])
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0
        )
        answers.append(made[0, ids.shape[1] :].tolist())
    return tuple(answers)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_alone_each_answer_is_that_of_transformers(
    family: str, kernels: str, family_folder: Callable[[str], Path]
) -> None:
    engine = engine_on(family_folder(family), kernels=kernels)
    for prompt, tokens in zip(PROMPTS, expected(family), strict=True):
        assert run(engine, greedy(1, prompt))[1].tokens == tokens


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="all in one batch"),
        pytest.param({"max_batch_tokens": 7, "max_sequences": 3}, id="prompts in pieces of at most 7 tokens"),
        pytest.param({"cache_blocks": 17}, id="a cache so small that sequences are preempted"),
    ],
)
def test_in_a_batch_nothing_changes(
    family: str, kernels: str, options: dict[str, object], family_folder: Callable[[str], Path]
) -> None:
    engine = engine_on(family_folder(family), kernels=kernels, **options)
    answers = run(engine, *(greedy(key, prompt) for key, prompt in enumerate(PROMPTS)))
    assert tuple(answers[key].tokens for key in range(len(PROMPTS))) == expected(family)
    assert engine.status().kv_cache_usage == 0


def test_a_sequence_that_joins_later_changes_nothing(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama)
    for key, prompt in enumerate(PROMPTS):
        engine.add(greedy(key, prompt))
        outputs = engine.step()
        assert outputs
    answers = run(engine, greedy(99, PROMPTS[0]))
    assert answers[99].tokens == expected("llama")[0]
    assert engine.status().running == 0


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_half_precision_runs(kernels: str, tiny_llama: Path) -> None:
    answers = run(engine_on(tiny_llama, kernels=kernels, dtype="bfloat16"), greedy(1, "Once"), greedy(2, "upon a"))
    assert [len(answers[key].tokens) for key in (1, 2)] == [12, 12]


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_cache_in_fp8_runs_and_does_not_depend_on_how_prompts_are_cut(kernels: str, tiny_llama: Path) -> None:
    requests = [greedy(key, prompt) for key, prompt in enumerate(PROMPTS)]
    options: dict[str, object] = {"kv_dtype": "fp8_e4m3", "kernels": kernels}
    whole = run(engine_on(tiny_llama, **options), *requests)
    pieces = run(engine_on(tiny_llama, **options, max_batch_tokens=7, cache_blocks=20), *requests)
    assert {key: answer.tokens for key, answer in whole.items()} == {k: a.tokens for k, a in pieces.items()}
