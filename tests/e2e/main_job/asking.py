"""Questions to a service over HTTP and gRPC, as clients ask them."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from typing import Any

from tests.e2e.main_job.kube import ROOT

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
MESSAGES = json.dumps([{"role": "user", "content": QUESTION}])


def ask(port: int, model: str, max_tokens: int = 32) -> dict[str, Any]:
    """One whole answer by /generate, greedy."""
    body = {"messages": MESSAGES, "max_tokens": max_tokens, "temperature": 0}
    found: dict[str, Any] = json.loads(_post(f"http://127.0.0.1:{port}/v2/models/{model}/generate", body))
    return found


def stream(port: int, model: str) -> list[dict[str, Any]]:
    """The events of /generate_stream, greedy."""
    body = {"messages": MESSAGES, "stream": True, "max_tokens": 32, "temperature": 0}
    text = _post(f"http://127.0.0.1:{port}/v2/models/{model}/generate_stream", body)
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]


def stream_by_grpc(port: int, model: str) -> str:
    """What the example client prints, which is NVIDIA's own gRPC client."""
    client = ROOT / "examples" / "clients" / "stream_grpc.py"
    command = [sys.executable, str(client), f"127.0.0.1:{port}", model, QUESTION]
    result = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def chat_by_openai(port: int, model: str) -> str:
    """What the example client prints, which is OpenAI's own: the answer, and the tokens below it."""
    client = ROOT / "examples" / "clients" / "openai_chat.py"
    command = [sys.executable, str(client), f"http://127.0.0.1:{port}/v1", model, QUESTION]
    result = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def gate_config(port: int, model: str, token: str) -> dict[str, Any]:
    """The configuration that Triton runs the gate with; a restricted API."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/{model}/config")
    request.add_header("triton-llm-token", token)
    found: dict[str, Any] = json.loads(_open(request))
    return found


def _post(url: str, body: dict[str, Any]) -> str:
    return _open(urllib.request.Request(url, json.dumps(body).encode()))


def _open(request: urllib.request.Request) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=90) as answer:
        text: bytes = answer.read()
    return text.decode()
