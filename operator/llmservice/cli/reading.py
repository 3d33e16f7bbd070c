"""Reads one service of a cluster for the commands that show it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmservice.api.yaml_text import read_yaml
from llmservice.cli.documents import fail
from llmservice.kube.errors import KubeError
from llmservice.kube.events import last_seen
from llmservice.kube.real import connect
from llmservice.kube.resources import EVENT, LLM_SERVICE, Manifest


@dataclass(frozen=True)
class Found:
    """A service and the Events about it, oldest first."""

    service: Manifest
    events: list[Manifest]


def read_service(name: str, namespace: str | None, context: str | None, kubeconfig: Path | None) -> Found:
    """The service. Ends the command with one clear error where there is none, or no cluster."""
    where = namespace or _context_namespace(kubeconfig, context)
    try:
        found = asyncio.run(_read(name, where, context, kubeconfig))
    except KubeError as error:
        raise fail(str(error)) from error
    if found is None:
        raise fail(f"there is no LLMService {name!r} in namespace {where!r}")
    return found


async def _read(name: str, namespace: str, context: str | None, kubeconfig: Path | None) -> Found | None:
    client = await connect(kubeconfig, context)
    try:
        service = await client.get(LLM_SERVICE, namespace, name)
        if service is None:
            return None
        # By uid, so that a service of the same name that is gone does not speak.
        selector = f"involvedObject.uid={service['metadata']['uid']}"
        events = await client.list(EVENT, namespace, field_selector=selector)
    finally:
        await client.close()
    return Found(service, sorted(events, key=last_seen))


def _context_namespace(kubeconfig: Path | None, context: str | None) -> str:
    """The namespace of the context in the kubeconfig (KUBECONFIG may name several); `default` where it names none."""
    files = str(kubeconfig or Path.home() / ".kube" / "config").split(os.pathsep)
    configs = [_kubeconfig(Path(file)) for file in files]
    wanted = context or next((config["current-context"] for config in configs if config.get("current-context")), None)
    entries = [entry for config in configs for entry in config.get("contexts") or ()]
    found: dict[str, Any] = next((entry for entry in entries if entry.get("name") == wanted), {})
    return str((found.get("context") or {}).get("namespace") or "default")


def _kubeconfig(file: Path) -> dict[str, Any]:
    try:
        documents = read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return documents[0] if documents and isinstance(documents[0], dict) else {}
