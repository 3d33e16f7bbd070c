"""The lines to copy once a service is ready."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from llmservice.local.replica import Ports
from llmservice.repository.sources import code_root

QUESTION: Final = "What is the capital of France?"
_CLIENTS: Final = Path("examples/clients")


def openai_lines(model: str, ports: Ports) -> list[str]:
    """A request to the OpenAI endpoint, by curl and by OpenAI's own client."""
    url = f"http://127.0.0.1:{ports.openai}/v1"
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": QUESTION}], "stream": True, "temperature": 0}
    )
    return [
        f"curl -sN {url}/chat/completions -d '{body}'",
        _by_example("openai_chat.py", f"{url} {model} '{QUESTION}'") or f"# OpenAI's client: base_url='{url}'",
    ]


def lines_to_copy(service: str, ports: Ports) -> list[str]:
    """A request by HTTP and one by gRPC, with the real ports, and where the metrics are."""
    messages = json.dumps([{"role": "user", "content": QUESTION}])
    body = json.dumps({"messages": messages, "stream": True, "max_tokens": 32, "temperature": 0})
    return [
        f"curl -sN http://127.0.0.1:{ports.http}/v2/models/{service}/generate_stream -d '{body}'",
        _by_example("stream_grpc.py", f"127.0.0.1:{ports.grpc} {service} '{QUESTION}'")
        or f"# gRPC: 127.0.0.1:{ports.grpc}, model {service}, ModelStreamInfer with messages [1, 1] and stream [1, 1]",
        f"curl -s http://127.0.0.1:{ports.metrics}/metrics",
    ]


def _by_example(name: str, arguments: str) -> str:
    """The command that runs an example; empty where there are none: only a checkout has them."""
    client = code_root().parent / _CLIENTS / name
    if not client.is_file():
        return ""
    shown = _CLIENTS / name if (Path.cwd() / _CLIENTS / name) == client else client
    python = "python" if Path(sys.executable).name.startswith("python") else sys.executable
    return f"{python} {shown} {arguments}"
