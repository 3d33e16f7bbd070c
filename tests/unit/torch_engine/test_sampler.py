"""A row's token depends on its logits, its parameters and its own random numbers, and on nothing else."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llmserving.engine import SamplingParameters
from llmtorch.sampler import CANDIDATES, Choosing, sample

pytestmark = pytest.mark.unit

LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
PARAMETERS = st.builds(
    SamplingParameters,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 3]),
    min_p=st.sampled_from([0.0, 0.3]),
    presence_penalty=st.sampled_from([0.0, 1.0]),
    logprobs=st.none() | st.integers(0, 3),
    seed=st.integers(0, 1000),
)


def choosing(sampling: SamplingParameters) -> Choosing:
    return Choosing(sampling, random.Random(sampling.seed))


def draw(count: int, sampling: SamplingParameters, logits: torch.Tensor = LOGITS) -> Counter[int]:
    one = choosing(sampling)
    return Counter(chosen.token for chosen in sample(logits.repeat(count, 1), [one] * count))


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


@pytest.mark.parametrize(("min_p", "kept"), [(0.05, {0, 1, 2, 3}), (0.2, {0, 1, 2}), (0.5, {0, 1}), (1.0, {0})])
def test_min_p_keeps_what_is_likely_enough_beside_the_likeliest(min_p: float, kept: set[int]) -> None:
    assert set(draw(2_000, SamplingParameters(seed=3, min_p=min_p))) == kept


@pytest.mark.parametrize("more", [{}, {"top_k": 2_000}, {"top_p": 0.999}, {"top_p": 0.6}, {"top_p": 0.9, "min_p": 0.4}])
def test_a_flat_vocabulary_needs_more_than_the_first_candidates(more: dict[str, float]) -> None:
    vocab = 3 * CANDIDATES
    logits = torch.linspace(0, 0.5, vocab)[None]
    sampling = SamplingParameters(seed=3, **more)  # type: ignore[arg-type]
    probabilities = torch.softmax(logits[0].double(), dim=0).flip(0)
    wanted = torch.arange(vocab) < (sampling.top_k or vocab)
    wanted &= probabilities.cumsum(0) - probabilities < sampling.top_p * probabilities[wanted].sum()
    least = vocab - int(wanted.sum())
    drawn = draw(400, sampling, logits)
    assert min(drawn) >= least
    assert min(drawn) < least + (vocab - least) // 4, "the unlikelier ones are drawn too"


def chosen(sampling: SamplingParameters, logits: list[float], prompt: list[int], steps: int = 1) -> list[int]:
    one = Choosing(sampling, random.Random(0), prompt, frozenset({0}))
    return [sample(torch.tensor([logits]), [one])[0].token for _ in range(steps)]


def greedy(**more: object) -> SamplingParameters:
    return SamplingParameters(temperature=0.0, **more)  # type: ignore[arg-type]


def test_a_repetition_penalty_counts_prompt_and_answer() -> None:
    logits = [1.0, 4.0, 3.0, -1.0]
    assert chosen(greedy(repetition_penalty=2.0), logits, [1], steps=3) == [2, 1, 1]
    assert chosen(greedy(repetition_penalty=3.0), [-1.0, -9.0, -2.0, -9.0], [0]) == [2], "less than nothing is less yet"


def test_presence_and_frequency_penalties_count_the_answer_alone() -> None:
    assert chosen(greedy(presence_penalty=1.5), [1.0, 4.0, 3.0], [1], steps=3) == [1, 2, 1]
    assert chosen(greedy(frequency_penalty=0.4), [1.0, 4.0, 3.0], [], steps=5) == [1, 1, 1, 2, 1]


def test_a_bias_is_added() -> None:
    assert chosen(greedy(logit_bias=((0, 3.5), (1, -100.0))), [1.0, 4.0, 3.0], []) == [0]


def test_an_answer_cannot_end_before_its_least_length() -> None:
    assert chosen(greedy(min_tokens=2), [9.0, 4.0, 3.0], [], steps=3) == [1, 1, 0]


def test_log_probabilities_are_those_of_the_model() -> None:
    one = choosing(greedy(logprobs=2, logit_bias=((3, 100.0),)))
    (told,) = sample(LOGITS.clone(), [one])
    assert told.token == 3
    assert told.logprob == pytest.approx(math.log(0.05))
    assert [token for token, _ in told.top] == [0, 1]
    assert [value for _, value in told.top] == pytest.approx([math.log(0.5), math.log(0.3)])
    assert sample(LOGITS.clone(), [choosing(greedy())])[0].logprob is None


@given(st.lists(PARAMETERS, min_size=1, max_size=6))
def test_the_same_token_alone_and_in_any_batch(rows: list[SamplingParameters]) -> None:
    logits = torch.randn(len(rows), 50, generator=torch.Generator().manual_seed(5))
    together = sample(logits.clone(), [choosing(row) for row in rows])
    alone = [sample(logits[i : i + 1].clone(), [choosing(row)])[0] for i, row in enumerate(rows)]
    assert together == alone
