"""Random requests from clients that leave, wait only so long, and are of all levels; every one must come to an end."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from tests.serving.paced_service import NAME

STREAMS: Final = 64
STUCK_SECONDS: Final = 90.0
MOST_TOKENS: Final = 40
LEVELS: Final = 3
BATCHING: Final = {
    "priorities": {"levels": LEVELS, "default": 2},
    "queue": {"maxSize": 200, "levels": [{"level": 3, "maxSize": 12, "timeout": "200ms"}]},
}
REFUSALS: Final = ("Exceeds maximum queue size", "Request timeout expired")
BREAKS: Final = ("send it again", "no engine instance is running", "Stub process", "Server is stopping", "is not ready")
"""What clients are told when a process was killed."""


@dataclass
class Misuse:
    """How requests ended. `wrong` are answers that are not what the paced engine gives, `stuck` have no end."""

    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    stuck: int = 0

    @property
    def requests(self) -> int:
        return sum(self.ends.values()) + len(self.wrong) + self.stuck

    def add(self, other: Misuse) -> None:
        """Takes the counts of `other` in."""
        self.ends += other.ends
        self.wrong += other.wrong
        self.stuck += other.stuck


async def misuse(url: str, requests: int, seed: int, kill: asyncio.Event | None = None) -> Misuse:
    """Sends `requests` at random, `STREAMS` at once. When `kill` is set clients stop, and errors are expected."""
    result = Misuse()
    numbers = iter(range(requests))
    rng = random.Random(seed)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def client() -> None:
            for _ in numbers:
                if kill is not None and kill.is_set():
                    return
                await _one(session, url, rng, result, kill)

        async with asyncio.TaskGroup() as group:
            for _ in range(STREAMS):
                group.create_task(client())
    return result


async def _one(
    session: aiohttp.ClientSession, url: str, rng: random.Random, result: Misuse, kill: asyncio.Event | None
) -> None:
    tokens = rng.randint(1, MOST_TOKENS)
    body: dict[str, Any] = {"text_input": "hello", "stream": True, "max_tokens": tokens}
    body["priority_level"] = rng.randint(1, LEVELS)
    if rng.random() < 0.3:
        body["client"] = rng.choice("abcd")
    if rng.random() < 0.15:
        body["deadline_ms"] = rng.randint(1, 200)
    if rng.random() < 0.1:
        body["timeout"] = rng.randint(1, 100_000)
    leave_after = rng.randint(0, tokens) if rng.random() < 0.25 else None
    try:
        async with asyncio.timeout(STUCK_SECONDS):
            result.ends[await _stream(session, url, body, leave_after)] += 1
    except TimeoutError:
        result.stuck += 1
    except (aiohttp.ClientError, OSError) as error:
        if kill is not None and kill.is_set():
            result.ends["broken"] += 1
        else:
            result.wrong.append(f"{type(error).__name__}: {error}")
    except AssertionError as error:
        result.wrong.append(str(error))


async def _stream(session: aiohttp.ClientSession, url: str, body: dict[str, Any], leave_after: int | None) -> str:
    """How the request ended. Raises AssertionError for an answer that is none, and what aiohttp raises."""
    received, reason = 0, ""
    async with session.post(f"{url}/v2/models/{NAME}/generate_stream", json=body) as response:
        if leave_after == 0:
            return "left"
        async for line in response.content:
            text = line.decode().removeprefix("data:").strip()
            if not text:
                continue
            event = json.loads(text)
            if "error" in event:
                return _refusal(event["error"])
            reason = event.get("finish_reason", "")
            if event["text_output"]:
                assert event["text_output"] == f"t{received} ", f"token {received} is {event['text_output']!r}"
                received += 1
            if received == leave_after:
                return "left"
    if reason == "deadline":
        return "deadline"
    if not reason:
        raise aiohttp.ClientPayloadError(f"the answer ended after {received} of {body['max_tokens']} tokens")
    assert received == body["max_tokens"], f"{received} tokens of {body['max_tokens']}"
    return "completed"


def _refusal(message: str) -> str:
    if any(words in message for words in REFUSALS):
        return "refused"
    assert any(words in message for words in BREAKS), message
    return "broken"
