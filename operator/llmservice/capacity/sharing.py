"""GPUs that several pods share: what they can carry, and what not.

Time-slicing divides time and nothing else: every pod sees, and may take, all of the memory, and a request for two may
get the same GPU twice. MPS divides memory evenly, and its device plugin refuses a request for more than one (NVIDIA
GPU Operator, "Time-Slicing GPUs in Kubernetes"; k8s-device-plugin, README, "With CUDA MPS").
"""

from __future__ import annotations

from collections.abc import Iterator

from llmservice.api.findings import Finding
from llmservice.api.fleet import Sharing, SharingStrategy
from llmservice.api.service import LLMService

_WORDS = {SharingStrategy.TIME_SLICING: "time-sliced", SharingStrategy.MPS: "shared by MPS"}


def memory_share(sharing: Sharing | None, memory_bytes: int) -> int:
    """What one pod may have of a GPU's memory."""
    return memory_bytes // sharing.replicas if sharing and sharing.strategy is SharingStrategy.MPS else memory_bytes


def sharing_problems(service: LLMService, sharing: Sharing | None, accelerators: int) -> Iterator[Finding]:
    """What shared GPUs make impossible. `accelerators` are those of one replica."""
    if sharing is None or not accelerators:
        return
    pool = service.spec.placement.pool
    if accelerators > 1:
        why = (
            "a replica that asks for more than one may get the same GPU twice"
            if sharing.strategy is SharingStrategy.TIME_SLICING
            else "a request for more than one is refused by the device plugin"
        )
        yield Finding(
            "plan-shared-split",
            "spec.engine.parallelism",
            f"The GPUs of pool {pool} are {_WORDS[sharing.strategy]}, and {why}.",
            "Write tensor: 1 and pipeline: 1, or placement.pool: a pool of GPUs that are not shared.",
        )
    most = 100 // sharing.replicas
    if sharing.strategy is SharingStrategy.TIME_SLICING and service.spec.kv_cache.memory_percent > most:
        yield Finding(
            "plan-shared-memory",
            "spec.kvCache.memoryPercent",
            f"Each GPU of pool {pool} is time-sliced between {sharing.replicas} pods without dividing its memory, and "
            f"this engine would take {service.spec.kv_cache.memory_percent} % of it.",
            f"Write at most {most}, or placement.pool: a pool of GPUs or MIG slices that are not shared.",
        )


def sharing_note(sharing: Sharing | None, accelerators: int) -> tuple[str, ...]:
    """What works on shared GPUs, but not as people expect."""
    if sharing is None or not accelerators:
        return ()
    if sharing.strategy is SharingStrategy.MPS:
        return (
            f"MPS shares each GPU between {sharing.replicas} pods: each has that part of the memory, and a fault of "
            "one ends all of them.",
        )
    return (
        f"Time-slicing shares each GPU between {sharing.replicas} pods: nothing keeps one from the memory of another, "
        "and each token waits for the turns of the others.",
    )
