"""Hubs and caches that cannot be used: each cause is named in the status, by an Event and by an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.main_job.cache_claim import claimed, small_volume
from tests.e2e.main_job.causes import assert_cause, told
from tests.e2e.main_job.conftest import NewSpace
from tests.e2e.main_job.hub_pod import SMALL, TOKEN, WITH_TLS, WITH_TOKEN, HubPod, weights_only
from tests.e2e.main_job.kube import Kube, Service
from tests.e2e.main_job.waiting import eventually

pytestmark = pytest.mark.e2e

TRUST = {
    "env": [{"name": "SSL_CERT_FILE", "value": "/trust/tls.crt"}],
    "volumes": [{"name": "trust", "secret": {"secretName": "trust", "items": [{"key": "tls.crt", "path": "tls.crt"}]}}],
    "volumeMounts": [{"name": "trust", "mountPath": "/trust", "readOnly": True}],
}


@dataclass(frozen=True)
class Fault:
    """A source or a cache that cannot be used: the step's exit code, and words of the cause."""

    name: str
    code: int
    says: tuple[str, ...]
    port: int = SMALL
    source: dict[str, Any] = field(default_factory=dict)
    cache: str = ""


FAULTS = [
    Fault("no-token", 4, ("UNAUTHORIZED", "401", "a request without a token"), WITH_TOKEN),
    Fault(
        "another-token",
        4,
        ("UNAUTHORIZED", "403", "the token of tokenSecretRef"),
        WITH_TOKEN,
        {"tokenSecretRef": {"name": "hub", "key": "wrong"}},
    ),
    Fault("no-repository", 3, ("NOT_FOUND", "owner/gone", "404"), source={"repo": "owner/gone"}),
    Fault("revision-gone", 3, ("NOT_FOUND", "no revision", "d" * 40), source={"revision": "d" * 40}),
    Fault("nobody-trusts-it", 8, ("TLS", "certificate", "SSL_CERT_FILE"), WITH_TLS, {"scheme": "https"}),
    Fault("nobody-answers", 6, ("NETWORK", "could not be reached"), source={"endpoint": "http://127.0.0.1:9"}),
    Fault("disk-full", 5, ("DISK_FULL", "are free on the volume of /cache"), cache="full"),
    Fault("not-ours", 1, ("/cache", "user 1000"), cache="roots"),
]


@pytest.fixture(scope="module")
def space(kube: Kube, hub: HubPod, new_space: NewSpace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A namespace with all of them, made at once."""
    namespace = new_space("sources")
    tokens = ("--from-literal=wrong=hf_wrong", f"--from-literal=right={TOKEN}")
    kube("-n", namespace, "create", "secret", "generic", "hub", *tokens)
    trusted = kube.get("secret", hub.namespace, "hub")
    kube.apply({**trusted, "metadata": {"name": "trust", "namespace": namespace}})
    folder = tmp_path_factory.mktemp("caches")
    with ExitStack() as stack:
        for name, kilobytes, user in (("full", 200, 1000), ("roots", 900, 0)):
            volume = stack.enter_context(small_volume(Path(folder) / name, kilobytes, user))
            stack.enter_context(claimed(kube, namespace, name, volume))
        for fault in FAULTS:
            more = {"model": {"cache": {"claimName": fault.cache}}} if fault.cache else {}
            kube.apply(weights_only(namespace, fault.name, hub.source(fault.port, **fault.source), **more))
        yield namespace
        kube("-n", namespace, "delete", "llm", "--all")
        kube("-n", namespace, "wait", "--for=delete", "pods", "--all", "--timeout=60s")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_cause_is_named_in_status_event_and_exit_code(fault: Fault, kube: Kube, space: str) -> None:
    service = Service(kube, space, fault.name)
    assert_cause(service, fault.code, fault.says)
    service.delete()


@pytest.mark.parametrize(
    ("name", "port", "source", "template"),
    [
        ("with-its-token", WITH_TOKEN, {"tokenSecretRef": {"name": "hub", "key": "right"}}, {}),
        ("with-its-certificate", WITH_TLS, {"scheme": "https"}, TRUST),
    ],
)
def test_what_the_message_says_helps(
    name: str, port: int, source: dict[str, Any], template: dict[str, Any], kube: Kube, hub: HubPod, space: str
) -> None:
    kube.apply(weights_only(space, name, hub.source(port, **source), template=template))
    service = Service(kube, space, name)
    eventually(lambda: (service.status().get("weights") or {}).get("phase") == "Ready", "the model is there", 90)
    service.delete()


def test_a_claim_of_the_cache_that_is_not_there_is_named(kube: Kube, hub: HubPod, space: str) -> None:
    kube.apply(weights_only(space, "no-claim", hub.source(SMALL), model={"cache": {"claimName": "nowhere"}}))
    service = Service(kube, space, "no-claim")
    message = told(service, "VolumeMissing")
    assert "'nowhere'" in message
    assert "spec.model.cache.claimName" in message
    service.delete()
