"""Asking the API server and the components' health endpoints over HTTPS with the administrator's certificate."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from cluster import certificates
from cluster.settings import Settings

Manifest = dict[str, Any]  # a Kubernetes object as JSON
TIMEOUT_SECONDS = 5.0
# No proxy of the environment stands between this host and itself.
_direct = urllib.request.ProxyHandler({})


class Api:
    """The API server of one cluster, as its administrator."""

    def __init__(self, settings: Settings, address: str, port: int) -> None:
        self.url = f"https://{address}:{port}"
        folder = certificates.pki(settings)
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        self._opener = urllib.request.build_opener(_direct, urllib.request.HTTPSHandler(context=context))

    def ready(self) -> bool:
        """Whether /readyz says ok."""
        try:
            with self._opener.open(f"{self.url}/readyz", timeout=TIMEOUT_SECONDS) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def get(self, path: str) -> Manifest | None:
        """An object or a list; None when there is none. Raises OSError when the server does not answer."""
        try:
            with self._opener.open(self.url + path, timeout=TIMEOUT_SECONDS) as response:
                answer: Manifest = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def apply(self, path: str, manifest: Manifest) -> None:
        """Server-side apply; raises OSError with the server's message in it."""
        url = f"{self.url}{path}?fieldManager=llmservice-cluster&force=true"
        headers = {"Content-Type": "application/apply-patch+yaml"}
        self._send(urllib.request.Request(url, json.dumps(manifest).encode(), headers, method="PATCH"))

    def delete(self, path: str) -> None:
        """Delete an object; nothing happens when it is gone already."""
        try:
            self._send(urllib.request.Request(self.url + path, method="DELETE"))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def _send(self, request: urllib.request.Request) -> None:
        try:
            with self._opener.open(request, timeout=30.0) as response:
                response.read()
        except urllib.error.HTTPError as error:
            if error.code == 404 and request.get_method() == "DELETE":
                raise
            message = error.read().decode(errors="replace")
            raise OSError(f"{request.get_method()} {request.full_url}: {message}") from error


def healthy(url: str) -> bool:
    """Whether a health endpoint of this host answers 200; its self-signed certificate is not looked at."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(_direct, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=TIMEOUT_SECONDS) as response:
            return bool(response.status == 200)
    except OSError:
        return False
