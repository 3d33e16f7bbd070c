"""A dozen services that between them use every builder; their goldens lie beside this file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llmservice.api.service import LLMService
from llmservice.capacity.plan import plan
from llmservice.workload.build import Workload, build
from tests.unit.workload.workloads import FLEET, KEY, KNOBS, LLAMA, REPOSITORY, SMOLLM, fleet, service


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
