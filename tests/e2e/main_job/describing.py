"""What a failed test shows of the cluster: services, pods, logs and events of the tests' namespaces."""

from __future__ import annotations

import json
import subprocess

from tests.e2e.main_job.kube import Kube


def describe(kube: Kube, label: str) -> str:
    """Everything that could explain a failure, as text."""
    parts = []
    for namespace in json.loads(kube("get", "namespaces", "-l", label, "-o", "json"))["items"]:
        name = namespace["metadata"]["name"]
        parts += [_said(kube, "-n", name, "get", "llm,pods", "-o", "wide")]
        parts += [_said(kube, "-n", name, "describe", "pods")[-6000:]]
        parts += [_said(kube, "-n", name, "get", "events", "--sort-by=.lastTimestamp")[-4000:]]
        log = ("logs", "-l", "app.kubernetes.io/name=llmservice", "--all-containers", "--tail=25", "--prefix")
        parts += [_said(kube, "-n", name, *log)[-6000:]]
    operator = ("logs", "-l", "app.kubernetes.io/name=llmservice-operator", "--tail=60", "--prefix")
    parts += [_said(kube, "-n", "triton-llm", *operator)]
    return "\n".join(parts)


def _said(kube: Kube, *arguments: str) -> str:
    command = kube.command("kubectl", *arguments)
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return f"$ kubectl {' '.join(arguments)}\n{result.stdout}{result.stderr}"
