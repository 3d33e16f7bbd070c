"""A spec for every warning, used here (Python) and there (kubectl apply on a real API server)."""

from __future__ import annotations

from typing import Any, Final

HUB: Final = {"huggingFace": {"repo": "owner/name", "revision": "main"}}

WARNING_CASES: Final[dict[str, dict[str, Any]]] = {
    "trap-levels-off": {"batching": {"priorities": {"levels": 0, "default": 1}}},
    "trap-max-size-per-level": {"batching": {"priorities": {"levels": 2, "default": 1}, "queue": {"maxSize": 8}}},
    "trap-served-names": {"model": {"servedNames": ["another"]}, "service": {"openAI": {"enabled": False}}},
    "trap-preferred-sizes": {"batching": {"mode": "Dynamic", "preferredBatchSizes": [4]}},
    "trap-preferred-below-maximum": {"batching": {"mode": "Dynamic", "preferredBatchSizes": [4], "maxSequences": 8}},
    "trap-preserve-ordering": {"batching": {"preserveOrdering": True}},
    "trap-delay-continuous": {"batching": {"maxQueueDelay": "5ms"}},
    "trap-mode-none": {"batching": {"mode": "None", "maxSequences": 8}},
    "trap-replicas-and-scaling": {"replicas": 1, "scaling": {"maxReplicas": 2}},
    "trap-instances-bounds": {"tuning": {"bounds": {"engineInstances": {"max": 2}}}},
    "trap-instances-vllm": {
        "engine": {"backend": "vllm"},
        "placement": {"pool": "a100-80gb"},
        "tuning": {"bounds": {"engineInstances": {"min": 2, "max": 2}}},
    },
    "trap-driver-nvidia": {"engine": {"backend": "vllm", "driver": "Nvidia"}},
    "trap-nvidia-openai": {
        "engine": {"backend": "vllm", "driver": "Nvidia"},
        "service": {"openAI": {"apiKeysSecret": "keys"}},
    },
    "trap-tensor-over-nodes": {
        "engine": {"backend": "vllm", "parallelism": {"tensor": 8, "pipeline": 2, "nodes": 4}},
        "placement": {"pool": "a100-80gb"},
    },
    "trap-bls-instances": {
        "engine": {
            "backend": "tensorrtllm",
            "driver": "Nvidia",
            "tensorrtllm": {"runtime": "Engine", "engine": {"chain": "BLS"}},
            "parameters": {"bls_instance_count": "4"},
        },
        "batching": {"maxSequences": 8},
    },
    "trap-engine-kv-dtype": {
        "engine": {"backend": "tensorrtllm", "driver": "Nvidia", "tensorrtllm": {"runtime": "Engine"}},
        "kvCache": {"dtype": "fp8_e4m3"},
    },
    "trap-tokenizer-path": {"model": {"tokenizer": {"path": "tokenizer"}}},
    "trap-unpinned-model": {"model": {"source": HUB}},
    "trap-unpinned-image": {"engine": {"image": "registry.example/triton"}},
    "trap-cache-unused": {"model": {"cache": {"claimName": "models"}}},
}
