"""How to reach the API server and as whom: from inside a pod, or by a kubeconfig."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration
from yaml import YAMLError

from llmservice import __version__
from llmservice.kube.errors import Unavailable

USER_AGENT: Final = f"triton-llm-operator/{__version__}"


@dataclass
class Connection:
    """An HTTP client with its configuration, and how to read the credentials again when they have expired."""

    api: ApiClient
    reload: Callable[[], Awaitable[None]]

    async def headers(self) -> dict[str, str]:
        """User agent and authorization; a pod's token is read again once a minute."""
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        for auth in (await self.api.configuration.auth_settings()).values():
            headers[str(auth["key"]).title()] = str(auth["value"])
        return headers

    async def close(self) -> None:
        """Close the HTTP client."""
        await self.api.close()  # type: ignore[no-untyped-call]


async def open_connection(kubeconfig: Path | None, context: str | None) -> Connection:
    """A connection by the kubeconfig, or from inside a pod when none is given and the pod's environment is there.

    Without either, the user's own kubeconfig (`KUBECONFIG`, `~/.kube/config`) is taken.
    Raises Unavailable, with what to do, when no configuration can be read.
    """
    configuration = Configuration()
    in_pod = kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ

    async def load() -> None:
        missing = "" if in_pod else _missing(kubeconfig)
        if missing:
            raise Unavailable(
                f"no access to a cluster: there is no kubeconfig {missing}; name one in KUBECONFIG or --kubeconfig",
                may_have_happened=False,
            )
        try:
            if in_pod:
                kube_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=str(kubeconfig) if kubeconfig else None,
                    context=context,
                    client_configuration=configuration,
                    persist_config=False,
                )
        except (
            kube_config.ConfigException,
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            YAMLError,
        ) as error:
            # The last five: a file that is no kubeconfig, whose parts the client takes for what they should be.
            where = "the pod's service account" if in_pod else str(kubeconfig or "the default kubeconfig")
            msg = f"no access to a cluster by {where}: {error}; give a kubeconfig and a context that are in it"
            raise Unavailable(msg, may_have_happened=False) from error

    await load()
    return Connection(ApiClient(configuration), load)


def _missing(kubeconfig: Path | None) -> str:
    """The files that would be read, as they are written, where there is none of them; empty: there is one."""
    files = str(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config")
    there = any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file)
    return "" if there else files
