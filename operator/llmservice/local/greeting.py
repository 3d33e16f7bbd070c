"""The lines to copy once a service is ready."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from llmservice.local.replica import Ports
from llmservice.repository.sources import code_root

QUESTION: Final = "What is the capital of France?"
_CLIENT: Final = Path("examples/clients/stream_grpc.py")


def lines_to_copy(service: str, ports: Ports) -> list[str]:
    """A request by HTTP and one by gRPC, with the real ports, and where the metrics are."""
    messages = json.dumps([{"role": "user", "content": QUESTION}])
    body = json.dumps({"messages": messages, "stream": True, "max_tokens": 32, "temperature": 0})
    return [
        f"curl -sN http://127.0.0.1:{ports.http}/v2/models/{service}/generate_stream -d '{body}'",
        _by_grpc(service, ports.grpc),
        f"curl -s http://127.0.0.1:{ports.metrics}/metrics",
    ]


def _by_grpc(service: str, port: int) -> str:
    client = code_root().parent / _CLIENT
    if not client.is_file():  # only a checkout has the examples
        return f"# gRPC: 127.0.0.1:{port}, model {service}, ModelStreamInfer with messages [1, 1] and stream [1, 1]"
    shown = _CLIENT if (Path.cwd() / _CLIENT) == client else client
    python = "python" if Path(sys.executable).name.startswith("python") else sys.executable
    return f"{python} {shown} 127.0.0.1:{port} {service} '{QUESTION}'"
