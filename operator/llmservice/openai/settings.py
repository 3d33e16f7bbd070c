"""What an endpoint is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class EndpointSettings:
    """One endpoint: it serves `model`, the gate of the Triton at `triton` (`host:port`, gRPC), under `names`.

    `adapters` are names of models too: each asks the gate for that adapter.
    `admin_port` has health and metrics, always without TLS and keys. A port of 0 is a free one. `api_keys` and `tls`
    are folders; None is off.
    """

    triton: str
    model: str
    names: tuple[str, ...]
    adapters: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8003
    admin_port: int = 8004
    api_keys: Path | None = None
    tls: Path | None = None
    max_request_bytes: int = 8 << 20
    request_seconds: float = 600.0
    drain_seconds: float = 300.0
