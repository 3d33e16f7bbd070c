"""Sampling parameters in vLLM's words."""

from __future__ import annotations

import pytest

from llmserving.engine import SamplingParameters
from llmvllm.sampling import sampling_arguments

pytestmark = pytest.mark.unit


def test_all_of_them_arrive() -> None:
    sampling = SamplingParameters(
        max_tokens=20, temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, seed=7, stop=("x",), stop_token_ids=(3,),
        ignore_eos=True, min_tokens=2, repetition_penalty=1.1, presence_penalty=0.2, frequency_penalty=0.3,
        logit_bias=((5, 1.5),), logprobs=4, n=2,
    )  # fmt: skip
    assert sampling_arguments(sampling, room=100) == {
        "max_tokens": 20,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "seed": 7,
        "stop": ["x"],
        "stop_token_ids": [3],
        "ignore_eos": True,
        "min_tokens": 2,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "logit_bias": {5: 1.5},
        "logprobs": 4,
        "n": 2,
    }


def test_an_answer_ends_where_the_room_does() -> None:
    found = sampling_arguments(SamplingParameters(max_tokens=20, min_tokens=10), room=5)
    assert (found["max_tokens"], found["min_tokens"]) == (5, 5)


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParameters(max_tokens=0),
        SamplingParameters(temperature=-1),
        SamplingParameters(top_p=0),
        SamplingParameters(top_k=-1),
        SamplingParameters(min_p=2),
        SamplingParameters(repetition_penalty=0),
        SamplingParameters(n=0),
        SamplingParameters(n=2, temperature=0),
        SamplingParameters(stop=("",)),
    ],
)
def test_what_is_out_of_bounds_is_refused(sampling: SamplingParameters) -> None:
    with pytest.raises(ValueError, match=r"send|leave"):
        sampling_arguments(sampling, room=100)
