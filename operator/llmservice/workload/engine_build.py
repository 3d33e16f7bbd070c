"""The Job that builds a TensorRT-LLM engine on a GPU of a service's pool, into a claim.

Commands: tensorrtllm_backend, README before f526fc5, "Prepare TensorRT-LLM engines" (convert_checkpoint.py, then
trtllm-build). The engine holds for the compute capability of the GPU it was built on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmservice.api.engine import Backend
from llmservice.api.fleet import FleetDefaults
from llmservice.api.model import Dtype, ModelSource
from llmservice.api.operations import KvCacheDtype
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.models import find_model
from llmservice.capacity.quantization import Quantization
from llmservice.repository.errors import RenderError
from llmservice.workload.manifest import Manifest
from llmservice.workload.names import NAME_LABEL, checked
from llmservice.workload.parts import accelerator_resources, engine_image, pool_of
from llmservice.workload.pod import USER_ID, placement_of
from llmservice.workload.security import container_security
from llmservice.workload.template import merge

FAMILIES: Final = {
    # First word of a model's name in the catalogue: the folder of its convert_checkpoint.py.
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "smollm2": "llama",
    "deepseek": "llama",
    "qwen": "qwen",
    "gemma": "gemma",
    "phi": "phi",
}
CONTAINER: Final = "build"
KEPT_SECONDS: Final = 86_400
"""A finished Job stays a day, for its log."""

_DOWNLOAD: Final = (
    "import os; from huggingface_hub import snapshot_download; "
    "snapshot_download(os.environ['REPO'], revision=os.environ['REVISION'], local_dir='/engine-build/model')"
)
_SCRIPT: Final = """\
convert=$(find /app -path "*/$FAMILY/convert_checkpoint.py" | head -n 1)
if [ -z "$convert" ]; then
  echo "this image has no convert_checkpoint.py for $FAMILY: use another image, or runtime: PyTorch" >&2
  exit 1
fi
if [ -e "$TARGET" ]; then echo "$TARGET is there already: choose another path" >&2; exit 1; fi
python3 "$convert" --model_dir "$MODEL" --output_dir /engine-build/checkpoint "$@"
trtllm-build --checkpoint_dir /engine-build/checkpoint --output_dir "$TARGET.partial" --gemm_plugin auto \\
  --max_batch_size "$MAX_BATCH_SIZE" --max_num_tokens "$MAX_NUM_TOKENS" --max_seq_len "$MAX_SEQ_LEN" \\
  --workers "$RANKS"
mkdir "$TARGET.partial/tokenizer"
find "$MODEL" -maxdepth 1 \\( -name 'tokenizer*' -o -name 'special_tokens*' -o -name '*.model' \\) \\
  -exec cp -L {} "$TARGET.partial/tokenizer/" \\;
mv "$TARGET.partial" "$TARGET"
echo "built for compute capability $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)"
"""
"""Values come by variables and arguments, so none is read as shell."""


@dataclass(frozen=True)
class EngineTarget:
    """Where the engine goes: a claim in the service's namespace, and a folder in it."""

    claim: str
    path: str


def build_engine_job(
    service: LLMService, plan: CapacityPlan, fleet: FleetDefaults, target: EngineTarget, family: str = ""
) -> Manifest:
    """The Job. `service` names the model's own files as its source, and the pool, split and limits of the engine.

    Raises RenderError for what cannot be built this way.
    """
    _refuse(service, plan)
    pool, image = pool_of(service, fleet), engine_image(service, fleet).image
    template = merge(pool.template, service.spec.template)
    accelerators = accelerator_resources(pool, plan)
    source = service.spec.model.source
    pod: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_download(service, image)] if source.hugging_face else [],
        "containers": [_build(service, plan, image, target, family or _family(service), accelerators)],
        "volumes": _volumes(source, target),
        **placement_of(pool, template, on_gpu=True),
    }
    labels = {NAME_LABEL: "llmservice-engine-build", "app.kubernetes.io/instance": service.metadata.name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{checked(service.metadata.name)}-engine",
            "namespace": service.metadata.namespace,
            "labels": labels,
        },
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": {key: value for key, value in pod.items() if value}},
        },
    }


def _refuse(service: LLMService, plan: CapacityPlan) -> None:
    spec, model = service.spec, find_model(service.spec.model.source)
    if spec.engine.backend is not Backend.TENSORRTLLM:
        raise RenderError("spec.engine.backend", "only tensorrtllm has engines to build: write backend: tensorrtllm")
    if not (spec.model.source.hugging_face or spec.model.source.pvc):
        raise RenderError("spec.model.source", "an engine is built from huggingFace or pvc: write one of them")
    if not plan.accelerators_per_replica:
        raise RenderError("spec.placement.pool", "an engine is built on the GPU it is for: write a pool of GPUs")
    if spec.kv_cache.dtype not in (KvCacheDtype.AUTO, KvCacheDtype.INT8):
        raise RenderError(
            "spec.kvCache.dtype",
            f"{spec.kv_cache.dtype.value} is calibrated into a checkpoint before the build: write Auto or int8, or "
            "runtime: PyTorch",
        )
    if model is not None and model.quantization is not Quantization.NONE:
        raise RenderError("spec.model.source", "a quantised copy is no source for a build: name the unquantised model")
    if not plan.max_length:
        raise RenderError("spec.model.maxLength", "an engine is built for a longest sequence: write maxLength")


def _family(service: LLMService) -> str:
    model = find_model(service.spec.model.source)
    word = model.name.lower().split("-")[0].split(".")[0] if model else ""
    found = next((family for start, family in FAMILIES.items() if word.startswith(start)), "")
    if not found:
        raise RenderError(
            "spec.model.source",
            f"the family of {model.name if model else 'this model'} is not known: name the folder of its "
            "convert_checkpoint.py by --family, such as llama",
        )
    return found


def _download(service: LLMService, image: str) -> Manifest:
    source = service.spec.model.source.hugging_face
    assert source is not None  # noqa: S101 - the caller asked
    env: list[Manifest] = [
        {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own
        {"name": "REPO", "value": source.repo},
        {"name": "REVISION", "value": source.revision},
    ]
    env += [{"name": "HF_ENDPOINT", "value": source.endpoint}] if source.endpoint else []
    if source.token_secret_ref:
        key = {"name": source.token_secret_ref.name, "key": source.token_secret_ref.key}
        env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}})
    return {
        "name": "weights",
        "image": image,
        "command": ["python3", "-c", _DOWNLOAD],
        "env": env,
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "work", "mountPath": "/engine-build"}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }


def _build(
    service: LLMService,
    plan: CapacityPlan,
    image: str,
    target: EngineTarget,
    family: str,
    accelerators: dict[str, str],
) -> Manifest:
    spec = service.spec
    split = spec.engine.parallelism
    options = [f"--tp_size={split.tensor}", f"--pp_size={split.pipeline}"]
    options += [f"--dtype={spec.model.dtype.value}"] if spec.model.dtype is not Dtype.AUTO else []
    options += ["--int8_kv_cache"] if spec.kv_cache.dtype is KvCacheDtype.INT8 else []
    pvc = spec.model.source.pvc
    values = {
        "HOME": "/tmp",  # noqa: S108 - the pod's own
        "FAMILY": family,
        "MODEL": f"/source/{pvc.path}".rstrip("/") if pvc else "/engine-build/model",
        "TARGET": f"/engines/{target.path}",
        "MAX_BATCH_SIZE": str(plan.max_sequences),
        "MAX_NUM_TOKENS": str(spec.batching.max_batch_tokens or max(8192, plan.max_sequences)),
        "MAX_SEQ_LEN": str(plan.max_length),
        "RANKS": str(split.accelerators),
    }
    mounts: list[Manifest] = [
        {"name": "work", "mountPath": "/engine-build"},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        {"name": "engines", "mountPath": "/engines"},
    ]
    mounts += [{"name": "source", "mountPath": "/source", "readOnly": True}] if pvc else []
    return {
        "name": CONTAINER,
        "image": image,
        "command": ["bash", "-euc", _SCRIPT, "build", *options],
        "env": [{"name": name, "value": value} for name, value in values.items()],
        "resources": {"requests": {"cpu": "4", "memory": "32Gi", **accelerators}, "limits": accelerators},
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _volumes(source: ModelSource, target: EngineTarget) -> list[Manifest]:
    found: list[Manifest] = [
        {"name": "work", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "engines", "persistentVolumeClaim": {"claimName": target.claim}},
    ]
    if source.pvc:
        claim = {"claimName": source.pvc.claim_name, "readOnly": True}
        found.append({"name": "source", "persistentVolumeClaim": claim})
    return found
