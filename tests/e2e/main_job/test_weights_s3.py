"""A model of an S3 bucket, in pods: it comes once, by the keys of a Secret, and what keeps it away is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.main_job.causes import assert_cause, told
from tests.e2e.main_job.conftest import NewSpace
from tests.e2e.main_job.hub_pod import weights_only
from tests.e2e.main_job.kube import Kube, Manifest, Service
from tests.e2e.main_job.s3_pod import Keys, S3Pod, install
from tests.e2e.main_job.waiting import eventually
from tests.weights.small_model import UNREAD, small_model

pytestmark = pytest.mark.e2e

FIRST, NO_SECRET = "first", "no-secret"


@dataclass(frozen=True)
class Fault:
    """A source that cannot be used: the step's exit code, and words of the cause."""

    name: str
    code: int
    says: tuple[str, ...]
    secret: str = "right"
    source: dict[str, Any] = field(default_factory=dict)


FAULTS = [
    Fault("another-secret", 4, ("UNAUTHORIZED", "s3://models/llama may not be read", "signature"), "wrong"),
    Fault("nobodys-key", 4, ("UNAUTHORIZED", "does not exist in our records", "check credentialsSecret"), "nobodys"),
    Fault("misnamed-keys", 4, ("UNAUTHORIZED", "Secret 'misnamed'", "AWS_ACCESS_KEY_ID"), "misnamed"),
    Fault("no-bucket", 3, ("NOT_FOUND", "s3://absent/llama", "404"), source={"bucket": "absent"}),
    Fault("no-folder", 7, ("BAD_FORMAT", "s3://models/absent", "config.json"), source={"prefix": "absent"}),
]


@pytest.fixture(scope="module")
def s3(kube: Kube, new_space: NewSpace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Pod]:
    """The server, with a model, and in its namespace a service that may read it and one for each fault, at once."""
    packages = tmp_path_factory.mktemp("s3") / "packages"
    install(packages)
    pod = S3Pod(kube, new_space("s3"))
    pod.start(packages)
    keys = pod.fill({f"llama/{name}": content for name, content in (small_model() | UNREAD).items()})
    secrets = {
        "right": keys.variables,
        "wrong": Keys(keys.identifier, "another").variables,
        "nobodys": Keys("AKIANOBODY", keys.secret).variables,
        "misnamed": {"accessKey": keys.identifier, "secretKey": keys.secret},
    }
    for name, variables in secrets.items():
        given = [f"--from-literal={variable}={value}" for variable, value in variables.items()]
        kube("-n", pod.namespace, "create", "secret", "generic", name, *given)
    start(pod, FIRST)
    start(pod, NO_SECRET, "nowhere")
    for fault in FAULTS:
        source = pod.source(credentialsSecret=fault.secret, **fault.source)
        kube.apply(weights_only(pod.namespace, fault.name, source))
    yield pod
    kube("-n", pod.namespace, "delete", "llm", "--all")
    kube("-n", pod.namespace, "delete", "pod", "s3")
    kube("-n", pod.namespace, "wait", "--for=delete", "pods", "--all", "--timeout=60s")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_cause_is_named_in_status_event_and_exit_code(fault: Fault, kube: Kube, s3: S3Pod) -> None:
    service = Service(kube, s3.namespace, fault.name)
    assert_cause(service, fault.code, fault.says)
    service.delete()


def test_it_comes_once_by_the_keys_of_a_secret(s3: S3Pod, kube: Kube) -> None:
    first = brought(Service(kube, s3.namespace, FIRST))
    assert first["transferredBytes"] == first["totalBytes"] == sum(map(len, small_model().values()))
    sent = s3.reads()
    assert sorted(sent) == sorted(f"/models/llama/{name}" for name in small_model())

    second = brought(start(s3, "second"))
    assert (second["transferredBytes"], second["totalBytes"]) == (0, first["totalBytes"])
    assert second["revision"] == first["revision"]
    assert s3.reads() == sent


def test_a_secret_that_is_not_there_is_named(s3: S3Pod, kube: Kube) -> None:
    service = Service(kube, s3.namespace, NO_SECRET)
    assert "Secret 'nowhere' is not there" in told(service, "SecretMissing")
    service.delete()


def start(s3: S3Pod, name: str, secret: str = "right") -> Service:
    """A service with the keys of one Secret; `right` has those of the user that may read the model."""
    s3.kube.apply(weights_only(s3.namespace, name, s3.source(credentialsSecret=secret)))
    return Service(s3.kube, s3.namespace, name)


def brought(service: Service) -> Manifest:
    """The status of the weights of a service, once they are there."""

    def ready() -> Manifest:
        found: Manifest = service.status().get("weights") or {}
        return found if found.get("phase") == "Ready" else {}

    return eventually(ready, f"{service.name}: the model is there", 90)
