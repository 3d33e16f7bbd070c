"""Bodies and headers -> what is asked of the gate, and every field that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.openai.asked import Asked, Caller, read_chat, read_completion
from llmservice.openai.errors import ApiError

pytestmark = pytest.mark.unit
CALLER = Caller({}, most_seconds=600)
MESSAGES = [{"role": "user", "content": "Hi"}]


def chat(**body: Any) -> Asked:
    return read_chat({"model": "m", "messages": MESSAGES, **body}, CALLER)


def completion(**body: Any) -> Asked:
    return read_completion({"model": "m", "prompt": "Hi", **body}, CALLER)


def refused(read: Any, **body: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(**body)
    error: ApiError = caught.value
    assert error.status == 400
    assert error.message
    return error


NOTHING: list[dict[str, Any]] = [
    {"tools": []},
    {"tools": None, "tool_choice": None},
    {"tool_choice": "none", "parallel_tool_calls": False},
    {"functions": [], "function_call": "none"},
    {"response_format": {"type": "text"}},
    {"modalities": ["text"], "audio": None},
    {"store": False, "service_tier": "auto", "prediction": None},
    {"user": "", "metadata": {"a": "b"}, "safety_identifier": None, "prompt_cache_key": "k"},
    {"stop": None, "seed": None, "n": None, "logit_bias": {}, "stream_options": None, "top_logprobs": None},
]


@pytest.mark.parametrize("body", NOTHING, ids=lambda body: ",".join(body))
def test_what_asks_for_nothing_is_taken(body: dict[str, Any]) -> None:
    assert chat(**body).generations == chat().generations


REFUSED: list[dict[str, Any]] = [
    {"tools": [{"type": "function"}]},
    {"tool_choice": "required"},
    {"parallel_tool_calls": True},
    {"functions": [{"name": "f"}]},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {}}},
    {"modalities": ["text", "audio"]},
    {"audio": {"voice": "alloy"}},
    {"prediction": {"type": "content", "content": "x"}},
    {"web_search_options": {"a": 1}},
    {"reasoning_effort": "low"},
    {"verbosity": "low"},
    {"store": True},
    {"service_tier": "priority"},
]


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: next(iter(body)))
def test_what_there_is_not_is_refused_by_name(body: dict[str, Any]) -> None:
    error = refused(chat, **body)
    assert (error.param, error.code) == (next(iter(body)), "unsupported_parameter")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"n": 129}, "n"),
        ({"stop": ""}, "stop[0]"),
        ({"stop": ["a", 1]}, "stop[1]"),
        ({"stop": ["a"] * 65}, "stop"),
        ({"presence_penalty": -3}, "presence_penalty"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"other": 1}}, "stream_options.other"),
        ({"priority": 0}, "priority"),
        ({"timeout": 0}, "timeout"),
        ({"temprature": 1}, "temprature"),
        ({"user": 7}, "user"),
        ({"user": "u" * 257}, "user"),
        ({"safety_identifier": ["s"]}, "safety_identifier"),
        ({"model": None}, "model"),
    ],
    ids=str,
)
def test_a_wrong_value_names_its_field(body: dict[str, Any], param: str) -> None:
    assert refused(chat, **body).param == param


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ApiError) as caught:
        read_chat({"messages": MESSAGES}, CALLER)
    assert (caught.value.param, caught.value.code) == ("model", "missing_required_parameter")


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ("Hi", "messages"),
        ([], "messages"),
        (["Hi"], "messages[0]"),
        ([{"content": "Hi"}], "messages[0].role"),
        ([{"role": "king", "content": "Hi"}], "messages[0].role"),
        ([{"role": "tool", "content": "Hi"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": "Hi", "name": "Ann"}], "messages[0].name"),
        ([{"role": "user", "content": "Hi", "size": 1}], "messages[0].size"),
        ([{"role": "assistant", "content": "Hi", "tool_calls": [{"id": "1"}]}], "messages[0].tool_calls"),
    ],
    ids=str,
)
def test_a_wrong_message_names_its_place(messages: Any, param: str) -> None:
    assert refused(chat, messages=messages).param == param


def test_an_answer_may_be_sent_back_as_it_came() -> None:
    came: dict[str, Any] = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "annotations": [],
        "tool_calls": None,
    }
    (generation,) = chat(messages=[{"role": "developer", "content": "Be brief."}, came]).generations
    assert generation.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Hi"},
    )


def test_a_chat_ends_with_the_context_unless_it_says_before() -> None:
    assert chat().generations[0].sampling["max_tokens"] == 1_048_576
    assert chat(max_tokens=5).generations[0].sampling["max_tokens"] == 5
    assert chat(max_completion_tokens=6).generations[0].sampling["max_tokens"] == 6
    assert completion().generations[0].sampling["max_tokens"] == 16


def test_clients_take_turns_by_the_name_of_their_key_else_by_the_user_they_say() -> None:
    assert chat().generations[0].client == ""
    assert chat(user="ann").generations[0].client == "ann"
    assert completion(user="ann", safety_identifier="a-17").generations[0].client == "a-17"
    with_a_key = Caller({}, most_seconds=600, client="team-a")
    asked = read_chat({"model": "m", "messages": MESSAGES, "user": "ann"}, with_a_key)
    assert asked.generations[0].client == "team-a"


def test_a_request_cannot_take_longer_than_the_service_lets_it() -> None:
    assert chat().generations[0].timeout_seconds == 600
    assert chat(timeout=2).generations[0].timeout_seconds == 2
    assert chat(timeout=6000).generations[0].timeout_seconds == 600


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": [[1, 2]]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": ["a"] * 65, "n": 2}, "prompt"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"logprobs": True}, "logprobs"),
    ],
    ids=str,
)
def test_a_wrong_completion_names_its_field(body: dict[str, Any], param: str) -> None:
    assert refused(completion, **body).param == param
