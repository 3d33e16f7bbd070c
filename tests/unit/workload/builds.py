"""Services whose engine is built, and the Job of each."""

from __future__ import annotations

from typing import Any, Final

from llmservice.api.fleet import FleetDefaults
from llmservice.capacity.plan import plan
from llmservice.capacity.pools import with_built_in_pools
from llmservice.workload.engine_build import EngineTarget, build_engine_job
from llmservice.workload.manifest import Manifest
from tests.unit.workload.workloads import LLAMA, service

FLEET: Final = with_built_in_pools(FleetDefaults())
TENSORRTLLM: Final = {"backend": "tensorrtllm", "driver": "Nvidia"}
HUB: Final[dict[str, Any]] = {"model": LLAMA, "engine": TENSORRTLLM, "placement": {"pool": "a100-80gb"}}
SPLIT: Final[dict[str, Any]] = {
    "model": {"source": {"pvc": {"claimName": "models", "path": "llama2-13b"}}, "maxLength": 4096, "dtype": "float16"},
    "engine": TENSORRTLLM | {"parallelism": {"tensor": 2}},
    "batching": {"maxSequences": 32, "maxBatchTokens": 4096},
    "kvCache": {"dtype": "int8"},
    "placement": {"pool": "a100-40gb"},
}
FAMILIES: Final = {"hub": (HUB, ""), "claim-over-two": (SPLIT, "llama")}


def job(spec: dict[str, Any], family: str = "") -> Manifest:
    """The Job of a service with `spec`."""
    asked = service(spec)
    return build_engine_job(asked, plan(asked, FLEET), FLEET, EngineTarget("engines", "llama2/a100"), family)
