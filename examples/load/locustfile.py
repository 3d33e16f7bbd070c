"""Load on a service with Locust, which a user of this project installs: pip install locust.

    locust -f examples/load/locustfile.py --headless -u 16 -r 4 -t 60s -H http://127.0.0.1:8003 OpenAIUser
    locust -f examples/load/locustfile.py --headless -u 16 -r 4 -t 60s -H http://127.0.0.1:8000 TritonUser

MODEL names the model (smollm2), MAX_TOKENS the longest answer (64), OPENAI_API_KEY a key where one is asked for.
REQUESTS ends the run after so many questions, whatever the time.
Beside Locust's own figures of whole answers it reports `first token` and, as `per token`, the mean time between two.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import gevent  # type: ignore[import-untyped]
from locust import HttpUser, constant, task
from locust.exception import StopUser

MODEL = os.environ.get("MODEL", "smollm2")
MAX_TOKENS = int(os.environ.get("MAX_TOKENS", "64"))
REQUESTS = int(os.environ.get("REQUESTS", "0"))
QUESTIONS = (
    "What is the capital of France?",
    "Explain in two sentences why the sky is blue.",
    "Write a short poem about a queue that never ends.",
    "List five things to check when a server is slow.",
)
QUIT_SECONDS = 0.5
"""After the last answer: Locust is to find every user gone."""
HasText = Callable[[dict[str, Any]], bool]


class StreamingUser(HttpUser):
    """A client that asks its next question when the last is answered (closed loop)."""

    abstract = True
    wait_time = constant(0)
    asked = answered = 0

    def stream(self, path: str, body: dict[str, Any], has_text: HasText, headers: dict[str, str] | None = None) -> None:
        """Asks once and reports when tokens came."""
        if 0 < REQUESTS <= StreamingUser.asked:
            raise StopUser
        StreamingUser.asked += 1
        try:
            self._ask(path, body, has_text, headers)
        finally:
            StreamingUser.answered += 1
            if StreamingUser.answered == REQUESTS:
                gevent.spawn_later(QUIT_SECONDS, self.environment.runner.quit)

    def _ask(self, path: str, body: dict[str, Any], has_text: HasText, headers: dict[str, str] | None) -> None:
        started = time.perf_counter()
        with self.client.post(path, json=body, headers=headers, stream=True, catch_response=True) as answer:
            if answer.status_code != 200:
                answer.failure(f"HTTP {answer.status_code}: {answer.text[:200]}")
                return
            times = [time.perf_counter() for event in _events(answer) if has_text(event)]
        if times:
            self._report("first token", path, times[0] - started)
        if len(times) > 1:
            self._report("per token", path, (times[-1] - times[0]) / (len(times) - 1))

    def _report(self, kind: str, path: str, seconds: float) -> None:
        self.environment.events.request.fire(
            request_type=kind, name=path, response_time=seconds * 1000, response_length=0, exception=None, context={}
        )


class OpenAIUser(StreamingUser):
    """Asks the OpenAI endpoint."""

    @task
    def chat(self) -> None:
        """One streamed chat."""
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": random.choice(QUESTIONS)}],  # noqa: S311 - any will do
            "max_tokens": MAX_TOKENS,
            "stream": True,
        }
        key = os.environ.get("OPENAI_API_KEY")
        self.stream("/v1/chat/completions", body, _openai_text, {"Authorization": f"Bearer {key}"} if key else None)


class TritonUser(StreamingUser):
    """Asks Triton itself."""

    @task
    def generate(self) -> None:
        """One streamed answer."""
        messages = json.dumps([{"role": "user", "content": random.choice(QUESTIONS)}])  # noqa: S311 - any will do
        body = {"messages": messages, "stream": True, "max_tokens": MAX_TOKENS}
        self.stream(f"/v2/models/{MODEL}/generate_stream", body, lambda event: bool(event.get("text_output")))


def _events(answer: Any) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            yield json.loads(line[6:])


def _openai_text(event: dict[str, Any]) -> bool:
    return any(choice["delta"].get("content") for choice in event.get("choices", []))
