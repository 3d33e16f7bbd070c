"""The ValidatingAdmissionPolicy that refuses what cannot work on any version and with any setting.

It knows the catalogues only: pools that a fleet defines under other names, and models that only their files tell, are
left to the plan. Where it fails itself, it stays silent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from llmservice.api.admission_policy import binding, policy
from llmservice.api.service import GROUP, PLURAL
from llmservice.capacity.accelerators import accelerators
from llmservice.capacity.architecture import Model
from llmservice.capacity.limits import OVERRIDE_ANNOTATION
from llmservice.capacity.models import catalogue
from llmservice.capacity.quantization import Quantization

NAME: Final = f"{PLURAL}-capacity.{GROUP}"
HINT: Final = f"annotate it {OVERRIDE_ANNOTATION}: 'true' to start it all the same"

_QUANTISED: Final = r"(?i)^.*-(awq(-int4)?|gptq(-int[48])?|fp8(-dynamic)?|quantized[.]w8a8)$"
"""Names of quantised copies, as `quantization.split_name` reads them."""

_SPLIT: Final = "variables.spec.engine.parallelism"
_KNOWN: Final = "size(variables.model) > 0"


@dataclass(frozen=True)
class Impossible:
    """One refusal. `forbids` and `message` are CEL; the message is what is wrong, then what to write instead."""

    code: str
    field_path: str
    forbids: str
    message: str


REFUSALS: Final = (
    Impossible(
        "plan-mig-profile",
        "spec.placement.pool",
        "variables.pool.matches(variables.sliced) && !(variables.pool in variables.bytes)",
        "'no GPU can be cut into ' + variables.pool + ': use one of its own profiles, such as a100-80gb-mig-3g.40gb'",
    ),
    Impossible(
        "plan-tensor-heads",
        "spec.engine.parallelism.tensor",
        f"{_KNOWN} && variables.pool != 'cpu' && {_SPLIT}.tensor > 1 && (variables.model[0] % {_SPLIT}.tensor != 0 "
        f"|| (variables.model[1] % {_SPLIT}.tensor != 0 && {_SPLIT}.tensor % variables.model[1] != 0))",
        f"'%d heads and %d KV heads cannot be shared evenly by %d accelerators: write a divisor of both, such as 2'"
        f".format([variables.model[0], variables.model[1], {_SPLIT}.tensor])",
    ),
    Impossible(
        "plan-max-length",
        "spec.model.maxLength",
        f"{_KNOWN} && has(variables.spec.model.maxLength) && variables.spec.model.maxLength > variables.model[2]",
        "'%d is above the %d positions that the model was made for: write at most %d'"
        ".format([variables.spec.model.maxLength, variables.model[2], variables.model[2]])",
    ),
    Impossible(
        "plan-weights",
        "spec.placement.pool",
        f"{_KNOWN} && variables.pool in variables.bytes && !has(variables.spec.engine.parameters) "
        f"&& variables.model[3] >= variables.bytes[variables.pool] * {_SPLIT}.tensor * {_SPLIT}.pipeline",
        "'the weights alone are %d MiB and %d accelerators of pool %s have %d MiB: write a larger tensor or pool, or "
        "use a quantised copy'.format([variables.model[3] / 1048576, "
        f"{_SPLIT}.tensor * {_SPLIT}.pipeline, variables.pool, "
        f"variables.bytes[variables.pool] * {_SPLIT}.tensor * {_SPLIT}.pipeline / 1048576])",
    ),
    Impossible(
        "plan-quantized-dtype",
        "spec.model.dtype",
        f"variables.repo.matches('{_QUANTISED}') && variables.spec.model.dtype == 'float32'",
        "'quantised weights are computed in 16 bits, not in float32: write dtype: auto, float16 or bfloat16'",
    ),
    Impossible(
        "plan-quantized-torch",
        "spec.model.source",
        f"variables.repo.matches('{_QUANTISED}') && variables.spec.engine.backend == 'torch'",
        "'the torch engine reads no quantised weights: name the unquantised model, or write engine.backend: vllm'",
    ),
    Impossible(
        "plan-fp8-weights",
        "spec.placement.pool",
        "variables.repo.matches('(?i)^.*-fp8(-dynamic)?$') && variables.spec.engine.backend == 'tensorrtllm' "
        "&& variables.pool in variables.ampere",
        "'pool ' + variables.pool + ' does not multiply fp8, which TensorRT-LLM needs for fp8 weights: use an AWQ int4 "
        "copy, or a pool of Ada or Hopper GPUs'",
    ),
    Impossible(
        "plan-kv-dtype",
        "spec.kvCache.dtype",
        "variables.spec.engine.backend == 'tensorrtllm' && (variables.spec.kvCache.dtype == 'fp8_e5m2' "
        "|| (variables.spec.kvCache.dtype == 'fp8_e4m3' && variables.pool in variables.ampere))",
        "'TensorRT-LLM keeps no ' + variables.spec.kvCache.dtype + ' cache on pool ' + variables.pool + ': write Auto "
        "or int8, or fp8_e4m3 on a pool of Ada or Hopper GPUs'",
    ),
)


def capacity_policy() -> dict[str, Any]:
    """The policy: variables from the catalogues, and one validation per refusal."""
    annotations = "object.metadata.annotations"
    annotated = f"has({annotations}) && '{OVERRIDE_ANNOTATION}' in {annotations}"
    return policy(
        NAME,
        [
            {
                "expression": f"!({refusal.forbids})",
                "messageExpression": f"'{refusal.field_path}: ' + {refusal.message} + {json.dumps('. Or ' + HINT)}",
            }
            for refusal in REFUSALS
        ],
        matchConditions=[
            # A label of an object that was stored before this policy can still be edited.
            {"name": "spec-changes", "expression": "oldObject == null || object.spec != oldObject.spec"},
            {
                "name": "not-overridden",
                "expression": f"!({annotated} && {annotations}['{OVERRIDE_ANNOTATION}'] == 'true')",
            },
        ],
        variables=[{"name": name, "expression": expression} for name, expression in variables().items()],
    )


def capacity_binding() -> dict[str, Any]:
    """The binding that refuses."""
    return binding(NAME, "Deny")


def variables() -> dict[str, str]:
    """The policy's variables in order, by name: each a CEL expression that may use those before it.

    `model` is [heads, KV heads, longest, bytes of the weights] of a known repository, else empty.
    """
    found = accelerators()
    sliceable = "|".join(name for name, item in found.items() if not item.mig and not item.is_cpu)
    sizes = {name: item.memory_bytes for name, item in found.items() if item.memory_bytes}
    models = {repo: _numbers(model) for repo, model in catalogue().as_written.items()}
    return {
        "spec": "object.spec",
        "pool": "object.spec.placement.pool",
        "repo": "has(object.spec.model.source.huggingFace) ? object.spec.model.source.huggingFace.repo : ''",
        "sliced": f"'^({sliceable})-mig-.*$'",
        "bytes": _cel(sizes),
        "ampere": _cel([name for name, item in found.items() if item.generation == "ampere"]),
        "models": _cel(models),
        "model": "variables.repo in variables.models ? variables.models[variables.repo] : []",
    }


def _numbers(model: Model) -> list[int]:
    """What the policy knows of one model. The weights are those of the files: no setting makes them smaller."""
    size = 1 if model.quantization is Quantization.FP8 else 2
    return [model.heads, 1 if model.latent else model.kv_heads, model.max_length, model.parameters * size]


def _cel(value: Any) -> str:
    """A literal of CEL: JSON with single quotes, which nothing here contains."""
    return json.dumps(value, separators=(", ", ": ")).replace('"', "'")
