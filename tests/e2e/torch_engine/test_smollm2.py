"""The real SmolLM2: what its files became, and the same greedy tokens as transformers on 50 prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.greedy import compare, read_prompts
from llmserving.tokenizer import TextTokenizer, end_tokens

pytestmark = pytest.mark.e2e


def test_its_tokenizer_is_that_of_the_published_model(smollm2: Path) -> None:
    tokenizer = TextTokenizer.load(smollm2)
    assert (tokenizer.token_id("<|endoftext|>"), tokenizer.token_id("<|im_start|>")) == (0, 1)
    assert end_tokens(smollm2, tokenizer) == {2}
    assert tokenizer.decode([49151]) != ""
    # Digits stand alone, also behind two spaces: the pre-tokenizer of the published model, not that of GPT-2.
    tokens = tokenizer.encode("for  2024")
    assert [tokenizer.decode([token]) for token in tokens] == ["for", "  ", "2", "0", "2", "4"]
    assert tokenizer.chat.render([{"role": "user", "content": "Hi"}]) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_greedy_tokens_are_those_of_transformers_on_50_prompts(smollm2: Path) -> None:
    requests = read_prompts()
    found = compare(smollm2, requests)
    assert found.tried == len(requests) == 50
    assert found.different == ()
    assert found.equal >= 48
