"""Where nothing changes, the operator writes nothing; and it has no more rights than it uses."""

from __future__ import annotations

import json

import pytest

from tests.e2e.main_job.conftest import Started
from tests.e2e.main_job.kube import CHILD_KINDS, Kube, Service
from tests.e2e.main_job.operator_release import ACCOUNT, OperatorRelease
from tests.e2e.main_job.waiting import eventually, settles, stays

pytestmark = pytest.mark.e2e

SECONDS = 60
WINDOWS = 65
"""Seconds in which two windows of signals end."""


def test_a_minute_without_a_change_is_a_minute_without_a_write(
    smollm2: Started, operator: OperatorRelease, kube: Kube
) -> None:
    service = smollm2.service
    eventually(lambda: calm(service), "the figures of earlier load are over", 100)
    settles(lambda: versions(service), WINDOWS, 240)  # load that just ended shows in the next window
    leader = operator.leader()
    before = operator.writes(leader)
    assert before, "the metrics count no write at all"
    stays(lambda: versions(service), SECONDS)
    assert operator.leader() == leader
    assert operator.writes(leader) == before


@pytest.mark.parametrize("verb", ["get", "list", "watch", "delete"])
def test_it_may_write_secrets_and_never_read_one(operator: OperatorRelease, kube: Kube, verb: str) -> None:
    assert not allowed(kube, verb, "secrets")
    assert allowed(kube, "patch", "secrets")


@pytest.mark.parametrize("resource", ["pods/exec", "pods/portforward", "clusterroles", "nodes/proxy"])
def test_it_reaches_into_nothing(operator: OperatorRelease, kube: Kube, resource: str) -> None:
    assert not allowed(kube, "create", resource)


def allowed(kube: Kube, verb: str, resource: str) -> bool:
    """Whether the operator's account may do this, by the API server's own answer."""
    name, _, part = resource.partition("/")
    group = "rbac.authorization.k8s.io" if name == "clusterroles" else ""
    attributes = {"namespace": "default", "verb": verb, "group": group, "resource": name, "subresource": part}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    text = json.dumps({**review, "spec": {"user": ACCOUNT, "resourceAttributes": attributes}})
    return kube("create", "-f", "-", "-o", "jsonpath={.status.allowed}", text=text) == "true"


def calm(service: Service) -> bool:
    signals = service.status().get("signals") or {}
    return signals.get("tokensPerSecond") == 0 and "timeToFirstTokenP99" not in signals


def versions(service: Service) -> dict[str, str]:
    """The version of the service and of every child."""
    found = [service.manifest(), *service.kube.list(CHILD_KINDS, service.namespace, service.selector)]
    return {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["resourceVersion"] for one in found}
