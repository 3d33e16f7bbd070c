"""Which types of the KV cache a backend can keep on a GPU, by version: what works is offered, the rest refused."""

from __future__ import annotations

from typing import Final

from llmservice.api.engine import Backend
from llmservice.api.operations import KvCacheDtype
from llmservice.capacity.accelerators import Accelerator
from llmservice.capacity.quantization import Quantization
from llmservice.repository.errors import UnknownTritonVersionError
from llmservice.repository.images import image_with, serving_images

_ONE_ENGINE: Final = (0, 10, 2)
"""From here vLLM has only its V1 engine: attention on Ampere with an fp8 cache goes to Triton kernels, which cannot
compile e4m3 below compute capability 8.9 ("type fp8e4nv not supported in this architecture", vllm#26431; a cure,
vllm#49077, is not merged). Before, XFormers and FlashInfer widened both fp8 types by software (vllm#3965, #7798)."""

_BYTES: Final = {KvCacheDtype.FP8_E4M3: 1, KvCacheDtype.FP8_E5M2: 1, KvCacheDtype.INT8: 1}


def vllm_version(triton_version: str) -> tuple[int, int, int]:
    """The vLLM in NVIDIA's image with `triton_version`; that of the nearest older known one, else of the oldest."""
    try:
        image = image_with(triton_version)
    except UnknownTritonVersionError:
        image = serving_images()[0]
    major, minor, patch = (int(part) for part in image.vllm.split("."))
    return major, minor, patch


def kv_bytes(dtype: KvCacheDtype, dtype_bytes: int) -> int:
    """Bytes of one cached number; `Auto` is as wide as what the model computes in."""
    return _BYTES.get(dtype, dtype_bytes)


def kv_scale_bytes(dtype: KvCacheDtype, backend: Backend) -> int:
    """Bytes of scales beside each cached key and each cached value: the torch engine has one in bfloat16 for each."""
    return 2 if backend is Backend.TORCH and dtype is KvCacheDtype.FP8_E4M3 else 0


def offered_kv_dtypes(
    backend: Backend, accelerator: Accelerator, quantization: Quantization, triton_version: str
) -> tuple[KvCacheDtype, ...]:
    """The types besides `Auto` that work, the best first.

    TensorRT-LLM: support matrix, "Precision": int8 caches from Ampere on, fp8 (e4m3) from Ada on.
    """
    if backend is Backend.TORCH:
        return (KvCacheDtype.FP8_E4M3,)
    if accelerator.is_cpu:
        return ()
    native = accelerator.computes_fp8
    if backend is Backend.TENSORRTLLM:
        return (KvCacheDtype.FP8_E4M3, KvCacheDtype.INT8) if native else (KvCacheDtype.INT8,)
    old = vllm_version(triton_version) < _ONE_ENGINE
    found = [KvCacheDtype.FP8_E4M3] if native or old else []
    # "fp8_e5m2 kv-cache is not supported with fp8 checkpoints", which vLLM says of every quantised one (vllm#39133).
    if quantization is Quantization.NONE:
        found.append(KvCacheDtype.FP8_E5M2)
    return tuple(found)
