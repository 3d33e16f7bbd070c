"""Start-up checks: the cluster is new enough, the CRD is there and not older than the operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from llmservice.api.crd import NAME, schema
from llmservice.api.service import VERSION
from llmservice.kube import resources
from llmservice.kube.client import KubeClient
from llmservice.kube.errors import Forbidden, KubeError
from llmservice.process.settings import StartupError

OLDEST_KUBERNETES: Final = (1, 30)
_INSTALL: Final = "install the chart's CRD, or run `llmservice crds | kubectl apply --server-side -f -`"
_SHOWN: Final = 5


async def check_cluster(client: KubeClient) -> None:
    """Raises StartupError, with what to do, when the operator cannot work on this cluster."""
    try:
        version = await client.server_version()
        if version < OLDEST_KUBERNETES:
            raise StartupError(
                f"Kubernetes {version[0]}.{version[1]} is too old: CRD rules and the drain hook need "
                f"{OLDEST_KUBERNETES[0]}.{OLDEST_KUBERNETES[1]} or later"
            )
        if not await client.served(resources.LLM_SERVICE):
            raise StartupError(f"the cluster does not know {NAME} {VERSION}: {_INSTALL}")
        stored = await client.get(resources.CUSTOM_RESOURCE_DEFINITION, None, NAME)
    except Forbidden as error:
        raise StartupError(f"the operator's role is too narrow: {error.message}") from error
    except KubeError as error:
        raise StartupError(f"the API server cannot be asked: {error.message}") from error
    missing = sorted(missing_fields(stored or {}))
    if missing:
        named = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        raise StartupError(f"the CRD is older than the operator and lacks {named}: {_INSTALL}")


def missing_fields(crd: Mapping[str, Any]) -> Iterator[str]:
    """Paths that this operator's schema has and the stored CRD lacks. A newer CRD lacks nothing."""
    versions = crd.get("spec", {}).get("versions", ())
    stored: Mapping[str, Any] = next((version for version in versions if version["name"] == VERSION), {})
    yield from _missing(schema(), stored.get("schema", {}).get("openAPIV3Schema", {}), "")


def _missing(wanted: Mapping[str, Any], stored: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, child in (wanted.get("properties") or {}).items():
        there = (stored.get("properties") or {}).get(name)
        here = f"{path}.{name}".removeprefix(".")
        if there is None:
            yield here
        else:
            yield from _missing(child, there, here)
    for part in ("items", "additionalProperties"):
        if isinstance(wanted.get(part), Mapping) and isinstance(stored.get(part), Mapping):
            yield from _missing(wanted[part], stored[part], f"{path}[]")
