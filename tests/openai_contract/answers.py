"""What is asked is answered, whole and as a stream."""

from __future__ import annotations

import asyncio

import openai
from openai.types.chat import ChatCompletionMessageParam

from tests.openai_contract.registry import ANSWER, INPUT_TOKENS, MODEL, OUTPUT_TOKENS, QUESTION, Served, case
from tests.serving.eventually import eventually_async

ASKED: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]


@case
async def a_chat_is_answered_whole(served: Served) -> None:
    async with served.client() as client:
        answer = await client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0)
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert [(choice.index, choice.finish_reason) for choice in answer.choices] == [(0, "stop")]
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == ANSWER
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == INPUT_TOKENS
    assert answer.usage.completion_tokens == OUTPUT_TOKENS
    assert answer.usage.total_tokens == INPUT_TOKENS + OUTPUT_TOKENS


@case
async def a_chat_streams_its_tokens_and_counts_them_when_asked(served: Served) -> None:
    async with served.client() as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=ASKED, temperature=0, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    *told, last = chunks
    assert len(told) > 3
    assert len({chunk.id for chunk in chunks}) == 1
    assert told[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in told) == ANSWER
    assert [chunk.choices[0].finish_reason for chunk in told] == [None] * (len(told) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in told)
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (INPUT_TOKENS, OUTPUT_TOKENS)


@case
async def the_client_without_asyncio_works_too(served: Served) -> None:
    def ask() -> tuple[str | None, str]:
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0, timeout=120) as client:
            whole = client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0)
            stream = client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0, stream=True)
            return whole.choices[0].message.content, "".join(c.choices[0].delta.content or "" for c in stream)

    assert await asyncio.to_thread(ask) == (ANSWER, ANSWER)


@case
async def content_may_come_in_parts_and_the_system_may_be_called_developer(served: Served) -> None:
    async with served.client() as client:
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=[
                {"role": "developer", "content": "You answer."},
                {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "it?"}]},
            ],
            max_completion_tokens=2,
        )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 2


@case
async def a_completion_has_sixteen_tokens_unless_it_says_more(served: Served) -> None:
    async with served.client() as client:
        short = await client.completions.create(
            model=MODEL, prompt="Once upon a time", temperature=0, extra_body={"ignore_eos": True}
        )
        longer = await client.completions.create(
            model=MODEL, prompt="Once upon a time", temperature=0, max_tokens=20, extra_body={"ignore_eos": True}
        )
    assert short.object == "text_completion"
    assert short.usage is not None
    assert longer.usage is not None
    assert (short.usage.completion_tokens, longer.usage.completion_tokens) == (16, 20)
    assert short.choices[0].finish_reason == "length"
    assert longer.choices[0].text.startswith(short.choices[0].text)


@case
async def each_of_several_prompts_has_a_choice_and_may_be_echoed(served: Served) -> None:
    prompts = ["Once upon a time", "The sky is"]
    async with served.client() as client:
        whole = await client.completions.create(model=MODEL, prompt=prompts, temperature=0, max_tokens=3, echo=True)
        stream = await client.completions.create(
            model=MODEL, prompt=prompts, temperature=0, max_tokens=3, echo=True, stream=True
        )
        texts = ["", ""]
        async for chunk in stream:
            for choice in chunk.choices:
                texts[choice.index] += choice.text
    assert [choice.index for choice in whole.choices] == [0, 1]
    assert [choice.text for choice in whole.choices] == texts
    assert all(text.startswith(prompt) and text != prompt for text, prompt in zip(texts, prompts, strict=True))
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 6


@case
async def a_stop_string_ends_the_answer_and_is_not_part_of_it(served: Served) -> None:
    async with served.client() as client:
        answer = await client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0, stop=[" France"])
    assert answer.choices[0].message.content == "The capital of"
    assert answer.choices[0].finish_reason == "stop"


@case
async def several_choices_have_a_seed_each_and_one_prompt_to_pay(served: Served) -> None:
    async with served.client() as client:
        whole = await client.chat.completions.create(
            model=MODEL, messages=ASKED, n=3, seed=1, temperature=1.0, max_tokens=6
        )
        stream = await client.chat.completions.create(
            model=MODEL, messages=ASKED, n=3, seed=1, temperature=1.0, max_tokens=6, stream=True
        )
        texts, ends = ["", "", ""], set()
        async for chunk in stream:
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
                if choice.finish_reason:
                    ends.add(choice.index)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert [choice.message.content for choice in whole.choices] == texts
    assert ends == {0, 1, 2}
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == INPUT_TOKENS


@case
async def log_probabilities_come_with_their_tokens(served: Served) -> None:
    async with served.client() as client:
        whole = await client.chat.completions.create(
            model=MODEL, messages=ASKED, temperature=0, max_tokens=3, logprobs=True, top_logprobs=2
        )
        stream = await client.chat.completions.create(
            model=MODEL, messages=ASKED, temperature=0, max_tokens=3, logprobs=True, top_logprobs=2, stream=True
        )
        chunks = [chunk.choices[0] async for chunk in stream]
        completion = await client.completions.create(
            model=MODEL, prompt="Once upon a time", temperature=0, max_tokens=3, logprobs=2
        )
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None
    content = logprobs.content or []
    assert [one.token for one in content] == ["The", " capital", " of"]
    for one in content:
        assert one.logprob <= 0
        assert bytes(one.bytes or []) == one.token.encode()
        assert [one.token, one.logprob] == [one.top_logprobs[0].token, one.top_logprobs[0].logprob]
        assert len(one.top_logprobs) == 2
    streamed = [one for chunk in chunks if chunk.logprobs for one in chunk.logprobs.content or []]
    assert [one.token for one in streamed] == [one.token for one in content]
    told = completion.choices[0].logprobs
    assert told is not None
    assert "".join(told.tokens or []) == completion.choices[0].text
    assert told.text_offset == [0, len((told.tokens or [""])[0]), len("".join((told.tokens or [])[:2]))]
    assert all(token in top for token, top in zip(told.tokens or [], told.top_logprobs or [], strict=True))


@case
async def penalties_biases_and_further_ways_to_sample_are_taken(served: Served) -> None:
    async with served.client() as client:
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=ASKED,
            max_tokens=4,
            presence_penalty=0.5,
            frequency_penalty=-0.5,
            logit_bias={"42": -100},
            top_p=0.9,
            extra_body={"top_k": 20, "min_p": 0.05, "min_tokens": 2, "repetition_penalty": 1.1, "stop_token_ids": [0]},
        )
    assert answer.choices[0].message.content


@case
async def a_seed_gives_the_same_answer_again(served: Served) -> None:
    async with served.client() as client:
        answers = [
            await client.completions.create(model=MODEL, prompt="Once", seed=7, temperature=1.0, max_tokens=8)
            for _ in range(2)
        ]
    assert answers[0].choices[0].text == answers[1].choices[0].text


@case
async def the_models_are_those_served(served: Served) -> None:
    async with served.client() as client:
        models = await client.models.list()
        model = await client.models.retrieve(MODEL)
    assert [one.id for one in models.data] == [MODEL]
    assert (model.id, model.object, model.owned_by) == (MODEL, "model", "llmservice")


@case
async def a_priority_and_a_timeout_may_be_asked_for_in_body_or_header(served: Served) -> None:
    async with served.client() as client:
        by_body = await client.chat.completions.create(
            model=MODEL, messages=ASKED, temperature=0, extra_body={"priority": 1, "timeout": 60}
        )
        by_header = await client.chat.completions.create(
            model=MODEL, messages=ASKED, temperature=0, extra_headers={"X-LLM-Priority": "3", "X-LLM-Timeout": "60"}
        )
    assert by_body.choices[0].message.content == by_header.choices[0].message.content == ANSWER


@case
async def a_client_that_leaves_a_stream_ends_its_computation(served: Served) -> None:
    async with served.client() as client:
        stream = await client.completions.create(
            model=MODEL, prompt="Once", max_tokens=900, stream=True, extra_body={"ignore_eos": True}
        )
        async for _ in stream:
            break
        await stream.close()
    await eventually_async(served.idle, within=60, what="the engine is idle long before 900 tokens")


@case
async def a_client_that_leaves_before_its_answer_ends_its_computation(served: Served) -> None:
    async with served.client() as client:
        asked = asyncio.create_task(
            client.completions.create(model=MODEL, prompt="Once", max_tokens=900, extra_body={"ignore_eos": True})
        )

        async def busy() -> bool:
            return not await served.idle()

        await eventually_async(busy, within=60, what="the engine computes")
        asked.cancel()
        await asyncio.wait([asked])
    await eventually_async(served.idle, within=60, what="the engine is idle long before 900 tokens")
