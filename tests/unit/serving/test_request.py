"""What clients may send, and what they are told when they send something else."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from llmgate.request import InvalidRequestError, parse_request
from llmserving.engine import SamplingParameters

pytestmark = pytest.mark.unit


def test_a_prompt_alone_gets_the_defaults() -> None:
    parsed = parse_request({"text_input": "Grüße".encode()}, {})

    assert (parsed.text, parsed.messages, parsed.stream) == ("Grüße", None, False)
    assert parsed.sampling == SamplingParameters()


def test_every_sampling_parameter_comes_as_json() -> None:
    values = {
        "max_tokens": 7,
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 40,
        "seed": 3,
        "stop": ["a", "b"],
        "stop_token_ids": [2],
        "ignore_eos": True,
        "min_p": 0.1,
        "min_tokens": 2,
        "repetition_penalty": 1.1,
        "presence_penalty": -2,
        "frequency_penalty": 0.25,
        "logit_bias": {"42": -100, "7": 0.5},
        "logprobs": 3,
        "n": 2,
        "adapter": "sql",
    }

    parsed = parse_request({"text_input": b"x", "sampling_parameters": json.dumps(values).encode()}, {})

    told = {"stop": ("a", "b"), "stop_token_ids": (2,), "logit_bias": ((42, -100.0), (7, 0.5))}
    assert parsed.sampling == SamplingParameters(**(values | told))  # type: ignore[arg-type]
    assert values.keys() == {field.name for field in dataclasses.fields(SamplingParameters)}


def test_a_deadline_is_no_sampling_parameter() -> None:
    assert parse_request({"text_input": b"x"}, {"deadline_ms": 1500}).deadline_ms == 1500


def test_sampling_parameters_come_as_request_parameters_too() -> None:
    parsed = parse_request({"text_input": b"x", "stream": True}, {"max_tokens": 7.0, "stop": "\n"})

    assert parsed.stream
    assert parsed.sampling == SamplingParameters(max_tokens=7, stop=("\n",))


def test_messages_are_kept_in_order() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi", "name": "ann"}]

    parsed = parse_request({"messages": json.dumps(messages).encode()}, {})

    assert parsed.messages == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"})


@pytest.mark.parametrize(
    ("inputs", "parameters", "says"),
    [
        ({}, {}, "exactly one of the inputs text_input and messages"),
        ({"text_input": b"\xff"}, {}, "text_input: is not UTF-8"),
        ({"messages": b"[]"}, {}, "messages: must be a JSON list"),
        ({"messages": b'[{"role": 1, "content": ""}]'}, {}, "messages[0].role: must be a string"),
        ({"messages": b'[{"role": "user", "content": "a"}, 3]'}, {}, "messages[1].role: must be a string"),
        ({"messages": b"[" * 100_000}, {}, "messages: is nested too deeply"),
        ({"messages": rb'[{"role": "user", "content": "\ud800"}]'}, {}, "messages: half of a surrogate pair"),
        ({"messages": b"nonsense"}, {}, "messages: is not JSON"),
        ({"messages": b"[\xff]"}, {}, "messages: is not UTF-8"),
        (
            {"text_input": b"x", "sampling_parameters": b'{"seed": ' + b"1" * 5000 + b"}"},
            {},
            "sampling_parameters: is not JSON",
        ),
        ({"text_input": b"x", "sampling_parameters": b"[]"}, {}, "sampling_parameters: must be a JSON object"),
        ({"text_input": b"x", "sampling_parameters": b'{"seed": 1}'}, {"seed": 2}, "seed: is in sampling_parameters"),
        ({"text_input": b"x"}, {"max_tokens": True}, "max_tokens: must be a whole number"),
        ({"text_input": b"x"}, {"max_tokens": 1.5}, "max_tokens: must be a whole number"),
        ({"text_input": b"x"}, {"max_tokens": -5}, "max_tokens: must be a whole number from 1"),
        ({"text_input": b"x"}, {"temperature": "hot"}, "temperature: must be a number"),
        ({"text_input": b"x"}, {"temperature": float("nan")}, "temperature: must be a number"),
        ({"text_input": b"x"}, {"top_p": 0}, "top_p: must be a number above 0 to 1"),
        ({"text_input": b"x"}, {"n": 0}, "n: must be a whole number from 1"),
        ({"text_input": b"x"}, {"min_tokens": 17}, "min_tokens: 17 is more than max_tokens, which is 16"),
        ({"text_input": b"x"}, {"logit_bias": [1]}, "logit_bias: must be a JSON object"),
        ({"text_input": b"x"}, {"logit_bias": {"the": 1}}, "logit_bias[the]: must be a whole number"),
        ({"text_input": b"x"}, {"logit_bias": {"3": "x"}}, "logit_bias[3]: must be a number from -100"),
        ({"text_input": b"x"}, {"deadline_ms": 0}, "deadline_ms: must be a whole number from 1"),
        ({"text_input": b"x"}, {"top_k": -1}, "top_k: must be a whole number from 0"),
        ({"text_input": b"x"}, {"seed": -1}, "seed: must be a whole number from 0"),
        ({"text_input": b"x"}, {"stop": [""]}, "stop: must be a string or a list"),
        ({"text_input": b"x"}, {"stop_token_ids": 3}, "stop_token_ids: must be a list"),
        ({"text_input": b"x"}, {"ignore_eos": 1}, "ignore_eos: must be true or false"),
        ({"text_input": b"x"}, {"best_of": 2}, "best_of: no such sampling parameter; known are max_tokens"),
    ],
)
def test_the_field_at_fault_is_named(inputs: dict[str, Any], parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_request(inputs, parameters)
    assert says in str(refused.value)
