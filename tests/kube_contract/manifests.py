"""Objects that the cases work with, and patience for what an API server does later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from llmservice.kube.resources import Manifest

NOON = "2026-01-01T12:00:00Z"


async def eventually(check: Callable[[], Awaitable[bool]], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not await check():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        await asyncio.sleep(0.05)


def config_map(
    namespace: str, name: str = "settings", *, data: dict[str, str] | None = None, **metadata: Any
) -> Manifest:
    metadata = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"delay": "5"}}


def deployment(namespace: str, name: str = "chat", *, image: str = "triton:1") -> Manifest:
    labels = {"app.kubernetes.io/instance": name}
    container = {
        "name": "triton",
        "image": image,
        "env": [{"name": "EMPTY", "value": ""}, {"name": "MODEL", "value": "chat"}],
        "ports": [{"name": "http", "containerPort": 8000}, {"name": "grpc", "containerPort": 8001, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1000m", "memory": "2048Mi"}, "requests": {"cpu": 0.5, "memory": "1.5Gi"}},
        "readinessProbe": {"httpGet": {"path": "/v2/models/chat/ready", "port": "http"}, "initialDelaySeconds": 0},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True},
        "volumeMounts": [{"name": "repository", "mountPath": "/repository", "readOnly": False}],
    }
    pod = {
        "containers": [container],
        "volumes": [
            {"name": "repository", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}},
            {"name": "rendered", "configMap": {"name": "settings", "items": []}},
        ],
        "nodeSelector": {},
        "automountServiceAccountToken": False,
        "hostNetwork": False,
        "terminationGracePeriodSeconds": 330,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "replicas": 0,
            "minReadySeconds": 0,
            "selector": {"matchLabels": labels},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "0%"}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def service(namespace: str, name: str = "chat") -> Manifest:
    ports = [{"name": "http", "port": 8000, "targetPort": "http"}, {"name": "grpc", "port": 8001, "targetPort": 8001}]
    spec = {"type": "ClusterIP", "selector": {"app.kubernetes.io/instance": name}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
