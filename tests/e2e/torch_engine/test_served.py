"""SmolLM2 behind gate and engine on a real tritonserver, rendered and written as the operator does it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmservice.local.tritonserver import TritonServer
from tests.serving.eventually import eventually_async
from tests.serving.smollm2_service import NAME, smollm2_service

pytestmark = pytest.mark.e2e

QUESTION = json.dumps([{"role": "user", "content": "What is the capital of France?"}])


@pytest.fixture(scope="module")
def server(smollm2: Path) -> Iterator[TritonServer]:
    with smollm2_service(smollm2, {"mode": "Continuous"}) as server:
        yield server


async def stream(server: TritonServer, *, status: int = 200, **body: Any) -> list[dict[str, Any]]:
    """The events of one request; an error is an event too."""
    url = f"{server.http_url}/v2/models/{NAME}/generate_stream"
    async with aiohttp.ClientSession() as session, session.post(url, json={"stream": True, **body}) as response:
        lines = (await response.text()).splitlines()
        assert response.status == status, lines
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


async def engine_steps(server: TritonServer) -> float:
    """Steps of the engine so far, of any batch size, from Triton's metrics page."""
    async with aiohttp.ClientSession() as session, session.get(server.metrics_url) as response:
        page = await response.text()
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "llm_engine_steps_total" and sample.labels["model"] == f"{NAME}-engine"
    )


async def test_a_question_is_answered_token_by_token(server: TritonServer) -> None:
    events = await stream(server, messages=QUESTION, max_tokens=24, temperature=0)
    assert len(events) > 3
    assert "".join(event.get("text_output", "") for event in events) == "The capital of France is Paris."
    assert events[-1]["finish_reason"] == "stop"
    assert (events[-1]["num_input_tokens"], events[-1]["num_output_tokens"]) == (37, 8)


async def test_the_engine_tells_how_long_it_loaded_and_warmed_up(server: TritonServer) -> None:
    async def told() -> bool:
        async with aiohttp.ClientSession() as session, session.get(server.metrics_url) as response:
            page = await response.text()
        found = {
            sample.name: sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.labels.get("model") == f"{NAME}-engine"
        }
        return found.get("llm_engine_load_seconds", 0) > 0 and found.get("llm_engine_warm_up_seconds", 0) > 0

    await eventually_async(told, 60, "both have reached Triton's metrics")


async def test_an_answer_may_come_whole(server: TritonServer) -> None:
    events = await stream(server, messages=QUESTION, max_tokens=24, temperature=0, stream=False)
    assert [event["text_output"] for event in events] == ["The capital of France is Paris."]


async def test_several_answers_come_whole_or_each_by_itself(server: TritonServer) -> None:
    asked: dict[str, Any] = {"text_input": "Once upon a time", "max_tokens": 5, "ignore_eos": True, "n": 3, "seed": 1}
    (whole,) = await stream(server, stream=False, **asked)
    assert whole["index"] == [0, 1, 2]
    assert whole["finish_reason"] == ["length"] * 3
    assert whole["num_output_tokens"] == [5, 5, 5]
    assert len(whole["token_ids"]) == 15
    events = await stream(server, **asked)
    for index, text in enumerate(whole["text_output"]):
        own = [event for event in events if event["index"] == index]
        assert "".join(event["text_output"] for event in own) == text
        assert [event.get("finish_reason") for event in own[-2:]] == [None, "length"]


async def test_log_probabilities_come_with_the_tokens(server: TritonServer) -> None:
    events = await stream(server, messages=QUESTION, max_tokens=3, temperature=0, logprobs=2)
    told = [one for event in events if "logprobs" in event for one in json.loads(event["logprobs"])]
    assert [one["token"] for one in told] == ["The", " capital", " of"]
    assert all(one["token_id"] == one["top_logprobs"][0]["token_id"] for one in told)


async def test_an_answer_ends_at_its_deadline(server: TritonServer) -> None:
    events = await stream(server, text_input="Once", max_tokens=1000, ignore_eos=True, deadline_ms=1500)
    assert events[-1]["finish_reason"] == "deadline"
    assert events[-1]["num_output_tokens"] < 1000


async def test_a_prompt_that_is_too_long_is_refused_in_words(server: TritonServer) -> None:
    events = await stream(server, status=400, text_input="word " * 2000, max_tokens=4)
    assert "spec.model.maxLength 1024" in events[-1]["error"]


async def test_steps_are_on_the_metrics_page(server: TritonServer) -> None:
    await stream(server, text_input="Once upon a time", max_tokens=8, temperature=0, ignore_eos=True)
    async with asyncio.timeout(60):
        while await engine_steps(server) < 8:  # exported once a second or so; each look is a request of its own
            continue
