"""Accelerators by dynamic resource allocation: the template of claims, and what a pod says of its own.

Kubernetes makes one ResourceClaim per pod from the template, and the scheduler allocates devices that drivers publish
in ResourceSlices (resource.k8s.io/v1, Kubernetes 1.34). Classes and attributes are those of NVIDIA's driver
(k8s-dra-driver-gpu: `GpuInfo.GetDevice` and `MigDeviceInfo.GetDevice` in cmd/gpu-kubelet-plugin/deviceinfo.go).
"""

from __future__ import annotations

import json
from typing import Final

from llmservice.api.fleet import Pool
from llmservice.api.placement import Allocation
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.accelerators import find_accelerator
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import revision_name

API_VERSION: Final = "resource.k8s.io/v1"
CLAIM: Final = "accelerators"
"""Name of the claim in the pod, and of the one request in it."""
DRIVER: Final = "gpu.nvidia.com"
GPU_CLASS: Final = "gpu.nvidia.com"
MIG_CLASS: Final = "mig.nvidia.com"


def is_claimed(service: LLMService, plan: CapacityPlan) -> bool:
    """Whether the replicas claim their accelerators. On a CPU there is nothing to claim."""
    return service.spec.placement.allocation is Allocation.RESOURCE_CLAIM and plan.accelerators_per_replica > 0


def device_class(pool: Pool) -> str:
    """The DeviceClass of the pool's accelerators."""
    known = find_accelerator(pool.accelerator)
    return pool.device_class or (MIG_CLASS if known and known.mig else GPU_CLASS)


def build_claim_template(service: LLMService, pool: Pool, plan: CapacityPlan, revision: str) -> Manifest:
    """The ResourceClaimTemplate of one revision: of the pool's class as many devices as a pod has, all on one node.

    Its spec can never change, so it has the revision's name and goes with it.
    """
    name = revision_name(service.metadata.name, revision)
    built = manifest(service, API_VERSION, "ResourceClaimTemplate", name, revision=revision)
    exactly: Manifest = {
        "deviceClassName": device_class(pool),
        "allocationMode": "ExactCount",
        "count": plan.accelerators_per_pod,
    }
    selectors = device_selectors(pool)
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in selectors]
    built["spec"] = {"spec": {"devices": {"requests": [{"name": CLAIM, "exactly": exactly}]}}}
    return built


def pod_claims(template: str) -> list[Manifest]:
    """`resourceClaims` of a pod that takes its claim from `template`."""
    return [{"name": CLAIM, "resourceClaimTemplateName": template}]


def claimed_annotation(pool: Pool, plan: CapacityPlan) -> str:
    """What the pod asks for, which its own manifest only names: JSON, devices by class."""
    return json.dumps({device_class(pool): plan.accelerators_per_pod})


def device_selectors(pool: Pool) -> list[str]:
    """CEL that a device must meet beside its class: of a MIG pool the profile, and what the pool says."""
    known = find_accelerator(pool.accelerator)
    profile = known.mig.profile if known and known.mig and not pool.device_class else ""
    own = [f"device.attributes['{DRIVER}'].profile == '{profile}'"] if profile else []
    return [*own, *pool.device_selectors]
