"""The chart as a user's helm sees it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from llmservice.api.fleet import FleetDefaults
from tests.cluster.chart.conftest import CHART, Render

pytestmark = pytest.mark.cluster

# Kinds that Kubernetes itself has no schema for: their own API servers check them.
FOREIGN_GROUPS = ("apiextensions.k8s.io/", "monitoring.coreos.com/")
SWITCHES = {
    "crds.install": ("true", "false"),
    "admissionPolicy.install": ("true", "false"),
    "admissionPolicy.refuseImpossible": ("true", "false"),
    "networkPolicy.enabled": ("true", "false"),
    "serviceMonitor.enabled": ("true", "false"),
    "podDisruptionBudget.enabled": ("true", "false"),
    "scope.namespaces": ("null", "{a,b}"),
    "nodes.prePullImages": ("true", "{vllm}", "false"),
    "fleet.weightsCache.hostPath": ("null", "/var/cache/llmservice"),
}


def matrix() -> list[tuple[str, ...]]:
    """Every pair of switches in every combination of the two, the others at their defaults."""
    cases = {
        (f"{one}={value_one}", f"{two}={value_two}")
        for one, two in itertools.combinations(SWITCHES, 2)
        for value_one in SWITCHES[one]
        for value_two in SWITCHES[two]
    }
    return sorted(cases)


def rules(manifests: list[dict[str, Any]]) -> list[tuple[str, str, frozenset[str]]]:
    """(kind of role, resource, verbs) for every rule of the operator's own roles."""
    return [
        (manifest["kind"], resource, frozenset(rule["verbs"]))
        for manifest in manifests
        if manifest["kind"] in ("Role", "ClusterRole") and not manifest["metadata"]["name"].endswith(("-view", "-edit"))
        for rule in manifest["rules"]
        for resource in rule["resources"]
    ]


def test_lint_finds_nothing(helm: Callable[..., Any]) -> None:
    result = helm("lint", str(CHART), "--strict", "--kube-version", "1.34.4")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("values", matrix(), ids=" ".join)
def test_every_pair_of_switches_renders_valid_objects(render: Render, values: tuple[str, ...]) -> None:
    manifests = render(*values)
    names = [(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in manifests]
    assert len(names) == len(set(names))
    for manifest in manifests:
        if not manifest["apiVersion"].startswith(FOREIGN_GROUPS):
            kubernetes_validate.validate(manifest, "1.34", strict=True)


@pytest.mark.parametrize(("given", "pulled"), [("true", 2), ("{torch}", 1), ("{torch,vllm}", 1), ("{tensorrtllm}", 1)])
def test_images_of_the_named_backends_are_pulled_once_each(render: Render, given: str, pulled: int) -> None:
    """By default the torch engine's image is vLLM's."""
    (nodes,) = (one for one in render(f"nodes.prePullImages={given}") if one["kind"] == "DaemonSet")
    images = [one["image"] for one in nodes["spec"]["template"]["spec"]["initContainers"]]
    assert len(images) == len(set(images)) == pulled
    assert any("trtllm" in image for image in images) == (given in {"true", "{tensorrtllm}"})


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("replicaCount=two", "replicaCount"),
        ("replicaCount=0", "replicaCount"),
        ("imgae.repository=x", "imgae"),
        ("prometheus.url=prometheus:9090", "prometheus/url"),
        ("fleet.images.onnx.image=x", "onnx"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("leaderElection.leaseSeconds=1", "leaseSeconds"),
    ],
)
def test_bad_values_are_refused_by_name(helm: Callable[..., Any], value: str, complaint: str) -> None:
    result = helm("template", "t", str(CHART), "--kube-version", "1.34.4", "--set", value)
    assert result.returncode != 0
    assert complaint in result.stderr


def test_kubernetes_before_1_30_is_refused(helm: Callable[..., Any]) -> None:
    result = helm("template", "t", str(CHART), "--kube-version", "1.29.9")
    assert result.returncode != 0
    assert ">=1.30" in result.stderr


def test_fleet_defaults_are_what_the_operator_reads(render: Render) -> None:
    manifests = render("prometheus.url=https://prometheus:9090", "prometheus.caSecret.name=ca")
    fleet_map = next(m for m in manifests if m["kind"] == "ConfigMap")
    fleet = FleetDefaults.model_validate(yaml.safe_load(fleet_map["data"]["fleet.yaml"]))
    assert fleet.prometheus.url == "https://prometheus:9090"
    assert fleet.prometheus.ca_file == "/etc/prometheus-ca/ca.crt"
    assert fleet.operator_image.startswith("ghcr.io/triton-llm/llmservice-operator:")
    assert {"cpu", "a100-40gb", "a100-80gb"} <= set(fleet.pools)


def test_secrets_are_written_and_never_read(render: Render) -> None:
    for values in ((), ("scope.namespaces={a,b}",)):
        secrets = [verbs for _, resource, verbs in rules(render(*values)) if resource == "secrets"]
        assert secrets
        assert all(verbs == {"create", "patch"} for verbs in secrets)


def test_no_rule_is_a_wildcard(render: Render) -> None:
    for _, resource, verbs in rules(render()):
        assert "*" not in resource
        assert "*" not in verbs


def test_namespaced_scope_gives_no_write_outside_its_namespaces(render: Render) -> None:
    manifests = render("scope.namespaces={a,b}")
    assert all(verbs <= {"get", "list"} for kind, _, verbs in rules(manifests) if kind == "ClusterRole")
    assert {m["metadata"]["namespace"] for m in manifests if m["kind"] == "Role"} == {"a", "b", "llm"}


def test_the_operator_runs_without_privileges(render: Render) -> None:
    deployment = next(m for m in render() if m["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_operator_key_is_not_kept_in_the_deployment(render: Render) -> None:
    manifests = render("operatorKey.existingSecret=mine")
    assert not [m for m in manifests if m["kind"] == "Secret"]
    deployment = next(m for m in manifests if m["kind"] == "Deployment")
    volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes["key"]["secret"]["secretName"] == "mine"
