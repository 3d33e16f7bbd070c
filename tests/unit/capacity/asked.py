"""Plans of services in few words, for the tests of the room."""

from __future__ import annotations

from typing import Any, Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.plan import plan
from llmservice.capacity.pools import with_built_in_pools

EVERYTHING: Final = with_built_in_pools(FleetDefaults(built_in_pools=["*"]))
"""A fleet with every accelerator of the catalogue as a pool."""


def asked(repo: str, pool: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> LLMService:
    """A service of a hub repository on vLLM; `spec` overrides its parts."""
    model = {"source": {"huggingFace": {"repo": repo}}, **spec.pop("model", {})}
    full = {"model": model, "engine": {"backend": "vllm"}, "placement": {"pool": pool}, **spec}
    return LLMService.parse({"metadata": {"name": "chat", "annotations": annotations or {}}, "spec": full})


def planned(
    repo: str,
    pool: str,
    fleet: FleetDefaults = EVERYTHING,
    *,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> CapacityPlan:
    """The plan of such a service."""
    return plan(asked(repo, pool, annotations=annotations, **spec), fleet)
