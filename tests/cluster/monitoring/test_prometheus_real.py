"""The embedded cluster's Prometheus: it finds a pod of a service, reads its page, and forgets it when it is gone."""

from __future__ import annotations

import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cluster import contexts, monitoring
from cluster.settings import Settings, from_environment
from tests.cluster_fixtures import Kubectl
from tests.serving.eventually import eventually

pytestmark = pytest.mark.cluster

SERIES = 'nv_inference_pending_request_count{namespace="%s",pod="chat-0"}'


class Page(BaseHTTPRequestHandler):
    """A replica's metrics page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(b'nv_inference_pending_request_count{model="chat"} 7\n')

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def page() -> Iterator[int]:
    """The port of a metrics page on this host."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def settings(kubeconfig: Path) -> Iterator[Settings]:
    """The embedded cluster, with a Prometheus while the test lasts."""
    assert contexts.chosen_by_user() is None, "the embedded cluster's Prometheus is no part of a cluster of yours"
    found = from_environment()
    monitoring.start(found)
    yield found
    monitoring.stop(found)


def pod(namespace: str, port: int) -> dict[str, Any]:
    """A pod that no scheduler places, as if it ran at this host's address."""
    ports = [{"name": "metrics", "containerPort": port}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": "chat-0", "labels": {"app.kubernetes.io/name": "llmservice"}},
        "spec": {"schedulerName": "none", "containers": [{"name": "triton", "image": "none", "ports": ports}]},
    }


def result(settings: Settings, query: str) -> list[dict[str, Any]]:
    """What Prometheus answers at this moment."""
    url = f"{monitoring.url(settings)}/api/v1/query?query={urllib.parse.quote(query)}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def fresh(settings: Settings, query: str) -> bool:
    """Whether the series is there, as the page has it."""
    return [one["value"][1] for one in result(settings, query)] == ["7"]


def stored(settings: Settings, query: str) -> list[float]:
    """When the samples of the last hour were taken."""
    return [float(at) for one in result(settings, f"{query}[1h]") for at, _ in one["values"]]


async def test_a_pod_of_a_service_is_scraped_until_it_is_gone(
    settings: Settings, kubectl: Kubectl, namespace: str, page: int
) -> None:
    kubectl("apply", "-f", "-", text=json.dumps(pod(namespace, page)))
    running = json.dumps({"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}})
    kubectl("-n", namespace, "patch", "pod", "chat-0", "--subresource=status", "--type=merge", "-p", running)
    query = SERIES % namespace
    await eventually(lambda: fresh(settings, query), 90, "Prometheus has the pod's queue")

    before = stored(settings, query)
    monitoring.start(settings, scraping=False)
    assert set(before) <= set(stored(settings, query)), "what it had stored is there again"
    last = max(stored(settings, query))
    monitoring.empty(settings)
    await eventually(lambda: fresh(settings, query), 90, "it scrapes again")
    assert min(stored(settings, query)) > last, "what it had stored is lost"

    kubectl("-n", namespace, "delete", "pod", "chat-0", "--grace-period=0", "--force")
    await eventually(lambda: result(settings, query) == [], 90, "a pod that is gone has no series")
