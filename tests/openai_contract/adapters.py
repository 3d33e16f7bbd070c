"""An adapter is a model of its own to clients: cases for a service that serves `ADAPTER` beside `MODEL`."""

from __future__ import annotations

from typing import Final

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.openai_contract.registry import MODEL, QUESTION, Case, Served

ADAPTER: Final = "poems"
ADAPTER_CASES: dict[str, Case] = {}
ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]


def case(function: Case) -> Case:
    ADAPTER_CASES[function.__name__] = function
    return function


@case
async def an_adapter_is_among_the_models(served: Served) -> None:
    async with served.client() as client:
        models = await client.models.list()
        adapter = await client.models.retrieve(ADAPTER)
    assert [one.id for one in models.data][:2] == [MODEL, ADAPTER]
    assert (adapter.id, adapter.object, adapter.to_dict()["parent"]) == (ADAPTER, "model", MODEL)


@case
async def whoever_names_it_is_answered_by_it(served: Served) -> None:
    async with served.client() as client:
        plain = await client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0, max_tokens=16)
        adapted = await client.chat.completions.create(model=ADAPTER, messages=ASKED, temperature=0, max_tokens=16)
        stream = await client.chat.completions.create(
            model=ADAPTER, messages=ASKED, temperature=0, max_tokens=16, stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert (plain.model, adapted.model, {chunk.model for chunk in chunks}) == (MODEL, ADAPTER, {ADAPTER})
    assert adapted.choices[0].message.content != plain.choices[0].message.content
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == adapted.choices[0].message.content


@case
async def it_completes_several_prompts_too(served: Served) -> None:
    prompts = ["Once upon a time", "The sky is"]
    async with served.client() as client:
        plain = await client.completions.create(model=MODEL, prompt=prompts, temperature=0, max_tokens=8)
        adapted = await client.completions.create(model=ADAPTER, prompt=prompts, temperature=0, max_tokens=8)
    assert len(adapted.choices) == len(prompts)
    for one, other in zip(plain.choices, adapted.choices, strict=True):
        assert one.text != other.text


@case
async def another_name_is_told_both(served: Served) -> None:
    async with served.client() as client:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(model="letters", messages=ASKED)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert f"{MODEL!r} or {ADAPTER!r}" in caught.value.message
