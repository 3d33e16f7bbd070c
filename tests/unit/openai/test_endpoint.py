"""What clients other than OpenAI's see: raw HTTP, keys, limits, a stream that breaks, a drain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from llmservice.openai.server import drain
from tests.openai_contract.registry import MODEL, QUESTION
from tests.serving.eventually import eventually
from tests.unit.openai.endpoints import Running, running
from tests.unit.openai.fake_gate import FakeGate

pytestmark = pytest.mark.unit
CHAT = "/v1/chat/completions"
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}]}


async def post(
    url: str, body: Any, headers: dict[str, str] | None = None, path: str = CHAT
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    """Status, body and headers of one request; `body` that is no text is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as http, http.post(url + path, data=data, headers=headers) as answer:
        return answer.status, await answer.json(), answer.headers.copy()


async def get(url: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[1]", "must be a JSON object"),
        (b"\xff", "is not UTF-8"),
        (b'{"model": "\\ud800"}', "half of a surrogate pair"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"temperature": NaN, "model": "smollm2", "messages": [{"role": "user", "content": "Hi"}]}', "temperature"),
    ],
    ids=["empty", "cut off", "no object", "no text", "half a character", "nested", "not a number"],
)
async def test_a_body_that_is_no_request_is_refused_in_openais_form(body: bytes, says: str) -> None:
    async with running() as found:
        status, answer, _ = await post(found.served.url, body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert says in answer["error"]["message"]


async def test_a_request_that_is_too_large_is_refused_before_it_is_read() -> None:
    async with running(max_request_bytes=1000) as found:
        status, answer, _ = await post(found.served.url, {**ASKED, "user": "x" * 2000})
    assert status == 413
    assert answer["error"]["code"] == "request_too_large"
    assert found.gate.asked == []


async def test_an_unknown_path_and_a_wrong_method_are_told_in_openais_form() -> None:
    async with running() as found:
        status, answer, _ = await post(found.served.url, {}, path="/v1/embeddings")
        assert (status, answer["error"]["code"]) == (404, "unknown_url")
        assert CHAT in answer["error"]["message"]
        status, text = await get(found.served.url + CHAT)
        assert status == 405
        assert json.loads(text)["error"]["type"] == "invalid_request_error"


async def test_keys_let_their_clients_in_and_are_counted_by_name(tmp_path: Path) -> None:
    (tmp_path / "team-a").write_text("sk-a\n")
    async with running(api_keys=tmp_path) as found:
        url = found.served.url
        for headers in ({}, {"Authorization": "Bearer sk-b"}, {"Authorization": "Basic sk-a"}):
            status, answer, told = await post(url, ASKED, headers)
            assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
            assert told["WWW-Authenticate"] == "Bearer"
        assert (await get(url + "/v1/models"))[0] == 401
        assert (await get(url + "/health"))[0] == 200
        assert (await post(url, ASKED, {"Authorization": "Bearer sk-a"}))[0] == 200
        assert [asked.parameters["client"] for asked in found.gate.asked] == ["team-a"]
        _, page = await get(found.admin_url + "/metrics")
    assert 'llm_openai_tokens_total{client="team-a",kind="generated"} 8.0' in page
    assert 'status="401"' in page


async def test_the_id_of_a_request_comes_back_and_a_strange_one_is_replaced() -> None:
    async with running() as found:
        _, answer, headers = await post(found.served.url, ASKED, {"X-Request-Id": "trace-1"})
        assert (headers["X-Request-Id"], answer["id"]) == ("trace-1", "chatcmpl-trace-1")
        _, answer, headers = await post(found.served.url, ASKED, {"X-Request-Id": "a b"})
        assert headers["X-Request-Id"] != "a b"


async def test_priority_timeout_and_sampling_reach_the_gate() -> None:
    async with running() as found:
        body = {**ASKED, "priority": 2, "timeout": 5, "top_k": -1, "min_p": 0.1, "seed": -1, "stop": "\n\n"}
        await post(found.served.url, body, {"X-LLM-Priority": "1"})
        (asked,) = found.gate.asked
    assert asked.parameters == {"priority": 1, "priority_level": 1, "deadline_ms": 5000, "error_codes": True}
    assert asked.sampling["top_k"] == 0
    assert asked.sampling["seed"] == 2**63 - 1
    assert asked.sampling["stop"] == ["\n\n"]
    assert not asked.stream


@pytest.mark.parametrize("value", ["high", "0", "17", "1.5", ""])
async def test_a_header_that_is_no_level_is_refused(value: str) -> None:
    async with running() as found:
        status, answer, _ = await post(found.served.url, ASKED, {"X-LLM-Priority": value})
    assert (status, answer["error"]["param"]) == (400, "X-LLM-Priority")


async def test_a_stream_that_breaks_says_so_in_its_last_event() -> None:
    async with running(FakeGate(breaks_after=2)) as found:
        events = await read_stream(found)
    assert json.loads(events[-1])["error"]["code"] == "unavailable"
    assert "DONE" not in events[-1].decode()


async def test_while_the_model_is_away_requests_may_be_asked_again_and_health_says_so() -> None:
    async with running(FakeGate(ready=False)) as found:
        status, answer, headers = await post(found.served.url, ASKED)
        assert (status, answer["error"]["code"], headers["Retry-After"]) == (503, "model_not_ready", "1")
        assert (await get(found.served.url + "/health"))[0] == 503
        assert (await get(found.admin_url + "/readyz"))[0] == 200


async def test_a_triton_that_is_not_there_is_told_in_the_same_form() -> None:
    async with running(triton="127.0.0.1:9") as found:
        status, answer, headers = await post(found.served.url, ASKED)
    assert (status, answer["error"]["type"]) == (503, "service_unavailable_error")
    assert "Retry-After" in headers


async def test_a_drain_refuses_what_comes_and_waits_for_what_is_told() -> None:
    async with running(FakeGate(token_seconds=0.02)) as found:
        streamed = asyncio.create_task(read_stream(found))
        await eventually(lambda: found.gate.running == 1, within=10, what="the stream runs")
        draining = asyncio.create_task(drain(found.endpoint, seconds=30))
        await eventually(lambda: found.endpoint.draining, within=10, what="the drain has begun")
        status, answer, headers = await post(found.served.url, ASKED)
        assert (status, answer["error"]["code"], headers["Connection"]) == (503, "draining", "close")
        assert (await get(found.admin_url + "/readyz"))[0] == 503
        assert await draining
        assert (await streamed)[-1] == b"[DONE]"


async def test_a_drain_ends_when_its_time_is_over() -> None:
    async with running(FakeGate(token_seconds=10)) as found:
        streamed = asyncio.create_task(read_stream(found))
        await eventually(lambda: found.gate.running == 1, within=10, what="the stream runs")
        assert not await drain(found.endpoint, seconds=0.05)
        streamed.cancel()
        await asyncio.wait([streamed])


async def read_stream(found: Running) -> list[bytes]:
    """The data of every event of a streamed chat, which must begin with status 200."""
    url, body = found.served.url + CHAT, {**ASKED, "stream": True}
    async with aiohttp.ClientSession() as http, http.post(url, json=body) as answer:
        assert answer.status == 200
        return [line[6:].strip() async for line in answer.content if line.startswith(b"data: ")]
