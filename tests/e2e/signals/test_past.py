"""`llmservice simulate --from-prometheus` against a real Prometheus that remembers half an hour of a service."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from llmservice.cli.main import app
from tests.serving.eventually import eventually
from tests.serving.real_prometheus import real_prometheus

pytestmark = pytest.mark.e2e

MINUTES = 30
RATE = 2.0
STEP, EACH, PROMPT = 0.010, 0.001, 0.00005
"""Seconds of a step, of each sequence in it, of each prompt token: what the page's counters are made of."""
PROMPT_TOKENS, ANSWER_TOKENS = 400.0, 50.0
SIZES = (2, 4, 8)


class Page:
    """A pod's page that tells one more minute of its past at each look, up to now.

    So Prometheus has it as if scraped once a minute, its own default.
    """

    def __init__(self) -> None:
        self.minute = 0
        self.begin = time.time() - 60 * MINUTES

    def text(self) -> str:
        at = round(1000 * (self.begin + 60 * min(self.minute, MINUTES)))
        lines = [f"{name} {value} {at}" for name, value in self.counters(min(self.minute, MINUTES)).items()]
        self.minute += 1
        return "\n".join(lines) + "\n"

    def counters(self, minutes: int) -> dict[str, float]:
        """After so many minutes; every second one is twice as busy, so that three costs can be told apart."""
        busy = sum(2 if minute % 2 else 1 for minute in range(minutes)) / 1.5
        requests = 60 * RATE * busy
        prompts = requests * PROMPT_TOKENS * (1 + 0.2 * (minutes % 3))
        found = {
            'llm_gate_requests_total{model="chat",outcome="completed"}': requests,
            'llm_engine_tokens_total{model="chat-engine",kind="prompt"}': prompts,
            'llm_engine_tokens_total{model="chat-engine",kind="generated"}': requests * ANSWER_TOKENS,
        }
        for size in SIZES:
            label = f'{{model="chat-engine",batch_size="{size}"}}'
            steps = requests * ANSWER_TOKENS / size / len(SIZES)
            found[f"llm_engine_steps_total{label}"] = steps
            found[f"llm_engine_step_seconds_total{label}"] = steps * (STEP + EACH * size) + PROMPT * prompts / len(
                SIZES
            )
        return found


@contextmanager
def served(page: Page) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def simulate(url: str, service: str = "chat/chat") -> tuple[int, str]:
    arguments = ["simulate", "--from-prometheus", url, "--service", service, "--past", "25m", "--cold-start", "30s"]
    found = CliRunner().invoke(app, [*arguments, "--first-token", "2s", "--output", "json"])
    return found.exit_code, found.stdout if found.exit_code == 0 else found.output


async def test_a_service_s_own_past_is_replayed() -> None:
    page = Page()
    with served(page) as address:
        async with real_prometheus(address, namespace="chat", pod="chat-1a2b3c4d-0") as prometheus:
            await eventually(lambda: page.minute > MINUTES + 1, 120, "Prometheus has all of the past")
            code, output = simulate(prometheus.url)
            assert code == 0, output
            tuned = json.loads(output)["tuned"]
            assert tuned["attainmentPercent"] > 90
            assert 24 / 60 <= tuned["acceleratorHours"] <= 16 * 25 / 60
            code, output = simulate(prometheus.url, "chat/other")
            assert code == 2
            assert "no requests are recorded" in output
            prometheus.stop()
            code, output = simulate(prometheus.url)
            assert code == 2
            assert "does not answer" in output
