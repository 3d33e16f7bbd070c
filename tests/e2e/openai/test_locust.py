"""The Locust file, run by Locust as a user would: against the OpenAI endpoint and against Triton."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from llmservice.local.tritonserver import TritonServer
from llmservice.openai.server import serving
from llmservice.openai.settings import EndpointSettings
from tests.serving.smollm2_service import NAME

pytestmark = pytest.mark.e2e
FILE = Path(__file__).parents[3] / "examples" / "load" / "locustfile.py"
REQUESTS = 5


async def locust(user: str, host: str, **environment: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, statistics and log of a run with two users that ends by itself."""
    options = ["--headless", "--users=2", "--spawn-rate=2", "--json", "--skip-log-setup"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "locust", "-f", str(FILE), *options, f"--host={host}", user,
        env={**os.environ, "MODEL": NAME, "MAX_TOKENS": "4", "REQUESTS": str(REQUESTS), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, log = await asyncio.wait_for(process.communicate(), 300)
    return process.returncode or 0, json.loads(out or b"[]"), log.decode()


@pytest.mark.parametrize("user", ["OpenAIUser", "TritonUser"])
async def test_a_bounded_run_counts_answers_first_tokens_and_paces(server: TritonServer, user: str) -> None:
    async with serving(EndpointSettings(server.grpc_address, NAME, (NAME,), port=0, admin_port=0)) as endpoint:
        host = f"http://127.0.0.1:{endpoint.port}" if user == "OpenAIUser" else server.http_url
        code, statistics, log = await locust(user, host)
    counts = Counter({one["method"]: one["num_requests"] for one in statistics})
    assert code == 0, log
    assert counts == {"POST": REQUESTS, "first token": REQUESTS, "per token": REQUESTS}
    assert all(one["num_failures"] == 0 for one in statistics)
    assert all(one["total_response_time"] > 0 for one in statistics)


async def test_refusals_are_failures_with_their_reason(server: TritonServer) -> None:
    async with serving(EndpointSettings(server.grpc_address, NAME, (NAME,), port=0, admin_port=0)) as endpoint:
        code, statistics, log = await locust("OpenAIUser", f"http://127.0.0.1:{endpoint.port}", MODEL="other")
    assert code == 1, log
    assert [(one["method"], one["num_failures"]) for one in statistics] == [("POST", REQUESTS)]
