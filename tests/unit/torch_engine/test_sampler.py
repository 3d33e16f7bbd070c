"""A row's token depends on its logits, its parameters and its own random numbers, and on nothing else."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llmserving.engine import SamplingParameters
from llmtorch.chat import ChatTemplate
from llmtorch.sampler import sample
from llmtorch.sequence import Sequence
from llmtorch.stop_strings import StopStrings
from llmtorch.tokenizer import Detokenizer, TextTokenizer
from tests.unit.torch_engine.tiny import byte_tokenizer

pytestmark = pytest.mark.unit

TOKENIZER = TextTokenizer(byte_tokenizer(), ChatTemplate(None, {}))
LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
PARAMETERS = st.builds(
    SamplingParameters,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 3]),
    seed=st.integers(0, 1000),
)


def sequence(sampling: SamplingParameters) -> Sequence:
    return Sequence(
        key=1,
        arrival=1,
        tokens=[1],
        num_prompt=1,
        max_tokens=1,
        sampling=sampling,
        batch=None,
        rng=random.Random(sampling.seed),
        detokenizer=Detokenizer(TOKENIZER),
        stop_strings=StopStrings(()),
    )


def draw(count: int, sampling: SamplingParameters) -> Counter[int]:
    one = sequence(sampling)
    return Counter(sample(LOGITS.expand(count, -1), [one] * count))


def test_temperature_zero_takes_the_likeliest() -> None:
    assert draw(20, SamplingParameters(temperature=0.0)) == {0: 20}


def test_drawn_as_often_as_likely() -> None:
    drawn = draw(20_000, SamplingParameters(seed=3))
    for token, share in enumerate((0.5, 0.3, 0.15, 0.05)):
        assert drawn[token] / 20_000 == pytest.approx(share, abs=0.02)


def test_temperature_sharpens() -> None:
    drawn = draw(20_000, SamplingParameters(seed=3, temperature=0.5))
    assert drawn[0] / 20_000 == pytest.approx(0.25 / (0.25 + 0.09 + 0.0225 + 0.0025), abs=0.02)


def test_top_k_keeps_the_likeliest_k() -> None:
    assert set(draw(2_000, SamplingParameters(seed=3, top_k=2))) == {0, 1}


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, {0}), (0.79, {0, 1}), (0.81, {0, 1, 2})])
def test_top_p_keeps_the_fewest_that_reach_it(top_p: float, kept: set[int]) -> None:
    assert set(draw(2_000, SamplingParameters(seed=3, top_p=top_p))) == kept


def test_top_p_counts_among_the_top_k() -> None:
    # Of 0.5 and 0.3 alone, the first has 0.625.
    assert set(draw(2_000, SamplingParameters(seed=3, top_k=2, top_p=0.6))) == {0}
    assert set(draw(2_000, SamplingParameters(seed=3, top_k=2, top_p=0.65))) == {0, 1}


@given(st.lists(PARAMETERS, min_size=1, max_size=6))
def test_the_same_token_alone_and_in_any_batch(rows: list[SamplingParameters]) -> None:
    logits = torch.randn(len(rows), 50, generator=torch.Generator().manual_seed(5))
    together = sample(logits, [sequence(row) for row in rows])
    alone = [sample(logits[i : i + 1], [sequence(row)])[0] for i, row in enumerate(rows)]
    assert together == alone
