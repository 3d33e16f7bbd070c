"""What cannot be answered says why, with the status and in the form that OpenAI's client turns into its exceptions."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.openai_contract.registry import ANSWER, MAX_LENGTH, MODEL, NARROW_LEVEL, QUESTION, Served, case

ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]


async def refused(served: Served, kind: type[openai.APIStatusError], **body: Any) -> openai.APIStatusError:
    """The exception of a chat with `body`."""
    async with served.client() as client:
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(**{"model": MODEL, "messages": ASKED, **body})
    return caught.value


@case
async def another_model_is_not_found(served: Served) -> None:
    error = await refused(served, openai.NotFoundError, model="gpt-4")
    assert (error.code, error.param, error.type) == ("model_not_found", "model", "invalid_request_error")
    assert MODEL in error.message
    async with served.client() as client:
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-4")


@case
async def a_wrong_value_names_its_field(served: Served) -> None:
    error = await refused(served, openai.BadRequestError, temperature=3)
    assert error.param == "temperature"
    assert "less than or equal to 2" in error.message


@case
async def what_the_gate_refuses_names_its_field(served: Served) -> None:
    error = await refused(served, openai.BadRequestError, logit_bias={"no-token": 1})
    assert error.param is not None
    assert error.param.startswith("logit_bias")


@case
async def a_level_that_the_service_does_not_have_is_refused_by_the_clients_name_of_it(served: Served) -> None:
    error = await refused(served, openai.BadRequestError, extra_body={"priority": 9})
    assert error.param == "priority"
    assert "from 1 (the highest) to 3" in error.message


@case
async def tools_and_images_are_refused_and_not_ignored(served: Served) -> None:
    tool = {"type": "function", "function": {"name": "look"}}
    error = await refused(served, openai.BadRequestError, tools=[tool])
    assert (error.param, error.code) == ("tools", "unsupported_parameter")
    image = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    error = await refused(served, openai.BadRequestError, messages=[{"role": "user", "content": [image]}])
    assert error.param == "messages[0].content[0].type"


@case
async def a_prompt_that_is_too_long_says_the_longest(served: Served) -> None:
    messages = [{"role": "user", "content": "word " * (2 * MAX_LENGTH)}]
    for stream in (False, True):
        error = await refused(served, openai.BadRequestError, messages=messages, stream=stream)
        assert error.code == "context_length_exceeded"
        assert f"spec.model.maxLength {MAX_LENGTH}" in error.message


@case
async def an_answer_that_takes_too_long_is_given_up(served: Served) -> None:
    error = await refused(
        served, openai.APIStatusError, max_tokens=900, extra_body={"ignore_eos": True, "timeout": 0.2}
    )
    assert error.status_code == 504
    assert error.code == "deadline_exceeded"


@case
async def a_full_queue_is_told_with_when_to_ask_again(served: Served) -> None:
    async def ask(client: openai.AsyncOpenAI) -> str | None:
        answer = await client.chat.completions.create(
            model=MODEL, messages=ASKED, temperature=0, extra_body={"priority": NARROW_LEVEL}
        )
        return answer.choices[0].message.content

    async with served.client() as client:
        told = await asyncio.gather(*(ask(client) for _ in range(32)), return_exceptions=True)
    errors = [answer for answer in told if isinstance(answer, BaseException)]
    assert errors
    assert {answer for answer in told if not isinstance(answer, BaseException)} == {ANSWER}
    for error in errors:
        assert isinstance(error, openai.RateLimitError), error
        assert error.code == "queue_full"
        assert int(error.response.headers["Retry-After"]) >= 1
