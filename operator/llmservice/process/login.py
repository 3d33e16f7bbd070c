"""kopf's login, by the same kubeconfig or service account as the operator's own client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import kopf

from llmservice.kube.connection import open_connection

Login = Callable[..., Awaitable[kopf.ConnectionInfo]]


def login_by(kubeconfig: Path | None, context: str | None) -> Login:
    """A login handler. kopf calls it again when its credentials are refused, so expired tokens are read anew."""

    async def login(**_: object) -> kopf.ConnectionInfo:
        connection = await open_connection(kubeconfig, context)
        try:
            configuration = connection.api.configuration
            authorization = (await connection.headers()).get("Authorization", "")
            scheme, token = authorization.split(" ", 1) if " " in authorization else ("", "")
            return kopf.ConnectionInfo(
                server=configuration.host,
                ca_path=configuration.ssl_ca_cert or None,
                insecure=not configuration.verify_ssl,
                scheme=scheme or None,
                token=token or None,
                certificate_path=configuration.cert_file or None,
                private_key_path=configuration.key_file or None,
            )
        finally:
            await connection.close()

    return login
