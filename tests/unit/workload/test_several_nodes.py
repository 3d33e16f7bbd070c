"""Pods of a replica over several nodes: a leader with Triton, and workers that nobody mistakes for it."""

from __future__ import annotations

import pytest

from llmservice.workload.pinning import LiveRevision
from tests.unit.workload.cases import CASES
from tests.unit.workload.workloads import fleet, service, workload

pytestmark = pytest.mark.unit

SEVERAL = next(case for case in CASES if case.several_nodes)


def test_each_pod_of_a_group_has_the_accelerators_of_its_node() -> None:
    counts = [one["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for one in SEVERAL.templates()]
    assert counts == ["8", "8"]
    claims = service(SEVERAL.spec | {"placement": {"pool": "a100-80gb", "allocation": "ResourceClaim"}})
    template = workload(claims, fleet()).manifest("ResourceClaimTemplate")
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 8


def test_no_request_goes_to_a_worker_and_no_part_of_a_group_goes_by_itself() -> None:
    built = SEVERAL.build()
    leader, worker = (template["metadata"]["labels"].items() for template in SEVERAL.templates())
    clients = built.manifest("Service")["spec"]["selector"].items()
    assert clients <= leader
    assert not clients <= worker
    kept = built.manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items()
    assert kept <= leader
    assert kept <= worker


def test_only_the_pods_of_a_group_reach_each_other_on_every_port() -> None:
    rules = SEVERAL.build().manifest("NetworkPolicy")["spec"]["ingress"]
    (anywhere,) = [rule for rule in rules if "ports" not in rule]
    (peer,) = anywhere["from"]
    assert peer.keys() == {"podSelector"}
    for template in SEVERAL.templates():
        assert peer["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize("policy", [False, True])
def test_groups_that_leave_stay_covered_until_they_are_gone(policy: bool) -> None:
    """Their pods still serve, and still trust whoever reaches them, though the spec asks for one node by now."""
    groups = SEVERAL.build()
    live = [LiveRevision(groups.keeper, groups.manifest("ConfigMap"))]
    asked = service(SEVERAL.spec | {"engine": {"backend": "vllm"}})
    between = workload(asked, fleet({"networkPolicy": policy}), live=live)
    assert between.keeper["kind"] == "Deployment"
    assert between.manifest("NetworkPolicy") == groups.manifest("NetworkPolicy")
    assert between.manifest("PodDisruptionBudget") == groups.manifest("PodDisruptionBudget")
    own = between.keeper["spec"]["template"]["metadata"]["labels"].items()
    assert between.manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= own
    after = workload(asked, fleet({"networkPolicy": policy}), live=[LiveRevision(between.keeper)])
    policies = [one for one in after.manifests if one["kind"] == "NetworkPolicy"]
    assert len(policies) == policy
    assert all("ports" in rule for one in policies for rule in one["spec"]["ingress"])


def test_a_worker_runs_our_code_from_the_engines_folder() -> None:
    (container,) = SEVERAL.templates()[1]["spec"]["containers"]
    assert container["command"] == ["python3", "-m", "llmvllm.worker"]
    assert container["workingDir"] == "/repository/chat-engine/1"
    assert "VLLM_HOST_IP" in {variable["name"] for variable in container["env"]}


def test_workers_stay_near_their_own_leader_where_the_pool_has_failure_domains() -> None:
    leader, worker = SEVERAL.templates()
    (near,) = worker["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    term = near["podAffinityTerm"]
    assert term["topologyKey"] == "topology.kubernetes.io/zone"
    assert term["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-key"]
    assert term["labelSelector"]["matchLabels"].items() <= leader["metadata"]["labels"].items()
    assert not term["labelSelector"]["matchLabels"].items() <= worker["metadata"]["labels"].items()
    nodes_only = {"big": {"accelerator": "a100-80gb", "topologyKeys": ["kubernetes.io/hostname"]}}
    asked = service(SEVERAL.spec | {"placement": {"pool": "big"}})
    groups = workload(asked, fleet({"pools": nodes_only})).keeper["spec"]["leaderWorkerTemplate"]
    assert "affinity" not in groups["workerTemplate"]["spec"]


def test_domains_of_their_own_are_asked_for_by_the_annotation_of_the_groups_controller() -> None:
    """It looks for it on the set, where it makes the workers, and on the pods, where it places the leader."""
    rack = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "example.com/rack"}
    built = workload(service(SEVERAL.spec | {"template": {"annotations": rack}}), fleet()).keeper
    assert built["metadata"]["annotations"].items() >= rack.items()
    for part in ("leaderTemplate", "workerTemplate"):
        assert built["spec"]["leaderWorkerTemplate"][part]["metadata"]["annotations"].items() >= rack.items()
    assert not SEVERAL.build().keeper["metadata"]["annotations"].keys() & rack.keys()


def test_a_kept_group_is_applied_again_as_it_was() -> None:
    before = workload(SEVERAL.service(), fleet())
    newer = fleet({"operatorImage": "registry.example/llmservice-operator:0.2.0"})
    after = workload(SEVERAL.service(), newer, live=[LiveRevision(before.keeper, before.manifest("ConfigMap"))])
    assert after.kept
    assert after.keeper == before.keeper
    assert not workload(SEVERAL.service(), newer).kept
