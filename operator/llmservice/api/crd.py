"""The CustomResourceDefinition of `LLMService`, generated from the pydantic types: they are its only source."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import yaml

from llmservice.api.schema import RULES
from llmservice.api.service import GROUP, KIND, PLURAL, SHORT_NAME, VERSION, LLMService, LLMServiceSpec
from llmservice.api.status import LLMServiceStatus
from llmservice.api.structural import Schema, structural, without_codes

NAME: Final = f"{PLURAL}.{GROUP}"
CATEGORY: Final = "triton-llm"

_COLUMNS: Final = (
    # name, type, JSON path, priority, description
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0, "Whether it answers."),
    ("Status", "string", ".status.summary", 0, "The phase, or the reason that blocks it."),
    ("Replicas", "string", ".status.replicasSummary", 0, "Ready and wanted replicas."),
    ("Queue", "number", ".status.signals.queueDepth", 0, "Requests that wait."),
    ("TTFT-P99", "string", ".status.signals.timeToFirstTokenP99", 0, "Time to the first token, 99th percentile."),
    ("Tokens/s", "number", ".status.signals.tokensPerSecond", 0, "Tokens given, over all replicas."),
    ("Model", "string", ".status.model", 0, "The model."),
    ("Age", "date", ".metadata.creationTimestamp", 0, "Since it was created."),
    ("Pool", "string", ".status.pool", 1, "Where replicas run."),
    ("Delay", "string", ".status.knobs.maxQueueDelay", 1, "How long the gate may wait to form a batch."),
    ("Instances", "integer", ".status.knobs.engineInstances", 1, "Engine instances in each replica."),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 1, "Why it is or is not ready."),
    ("Weights", "string", ".status.weights.progress", 1, "How far the weights are, while they come."),
)


@cache
def schema() -> Schema:
    """The schema of one object, rules with their codes under `x-code`. Treat it as read-only."""
    status = structural(LLMServiceStatus) | {
        # A newer operator beside an older CRD must find again what it wrote.
        "x-kubernetes-preserve-unknown-fields": True
    }
    return {
        "description": "One language model, served by replicas on NVIDIA Triton.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "maxLength": 64},
            "kind": {"type": "string", "maxLength": 64},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": structural(LLMServiceSpec),
            "status": status,
        },
        RULES: [rule.schema() for rule in LLMService.rules],
    }


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition as a manifest."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": [SHORT_NAME],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": without_codes(schema())},
                    "additionalPrinterColumns": [_column(*column) for column in _COLUMNS],
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                }
            ],
        },
    }


def crd_yaml() -> str:
    """The CustomResourceDefinition as YAML; the same text at every call."""
    return to_yaml(crd())


def to_yaml(manifest: dict[str, Any]) -> str:
    """A manifest as YAML in the order of its keys, without anchors."""
    return yaml.dump(manifest, Dumper=_PlainDumper, sort_keys=False, width=120, allow_unicode=True)


class _PlainDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _column(name: str, kind: str, path: str, priority: int, description: str) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | ({"priority": priority} if priority else {})
