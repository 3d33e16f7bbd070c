"""Replicas over several nodes in the loop: a LeaderWorkerSet in the place of the Deployment, counted by its groups."""

from __future__ import annotations

import pytest

from llmservice.kube import resources
from llmservice.kube.errors import NotServed
from llmservice.reconcile.decide import LATER
from llmservice.reconcile.observe import SHORT_GROUPS, observe, observe_groups
from tests.unit.reconcile.grouped_cluster import ON_TWO_NODES, GroupedCluster
from tests.unit.reconcile.small_cluster import KEY

pytestmark = pytest.mark.unit

REFUSED = "create Pod failed: pods is forbidden: exceeded quota: gpus"


async def test_a_replica_is_a_group_and_counted_once() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES, scaling={"minReplicas": 2, "maxReplicas": 2})
    await cluster.converge()
    (name,) = cluster.sets()
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == []
    assert len(cluster.pods()) == 4
    status = cluster.status()
    assert (status["replicasSummary"], status["summary"]) == ("2/2", "Serving")
    assert status["capacity"]["nodes"] == 2
    (revision,) = status["revisions"]
    assert name == f"chat-{revision['name']}"
    assert (revision["replicas"], revision["readyReplicas"]) == (2, 2)
    assert revision["image"].endswith("vllm-python-py3")
    assert await cluster.writes_of_a_pass() == []


async def test_live_changes_go_to_leaders_only() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES)
    await cluster.converge()
    (name,) = cluster.sets()
    assert set(cluster.live.brought) == {f"{name}-0"}


async def test_an_autoscaler_s_count_goes_to_the_groups() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES, replicas=1)
    await cluster.converge()
    cluster.user_applies(ON_TWO_NODES, replicas=3)
    await cluster.converge()
    (name,) = cluster.sets()
    assert cluster.kube.peek(resources.LEADER_WORKER_SET, KEY[0], name)["spec"]["replicas"] == 3
    assert cluster.status()["replicasSummary"] == "3/3"


async def test_a_replaced_revision_keeps_its_template_and_leaves() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES)
    await cluster.converge()
    (old,) = cluster.sets()
    made_from = cluster.kube.peek(resources.LEADER_WORKER_SET, KEY[0], old)["spec"]["leaderWorkerTemplate"]
    changed = ON_TWO_NODES["engine"] | {"parameters": {"enforce_eager": "true"}}
    cluster.user_applies(ON_TWO_NODES, engine=changed)
    asked = []
    while old in cluster.sets():
        left = cluster.kube.peek(resources.LEADER_WORKER_SET, KEY[0], old)["spec"]
        assert left["leaderWorkerTemplate"] == made_from
        asked.append(left["replicas"])
        await cluster.reconcile()
        cluster.controllers_act()
    assert (asked[0], asked[-1]) == (1, 0)
    (new,) = cluster.sets()
    assert all(pod.startswith(new) for pod in cluster.pods())


async def test_a_service_moves_from_one_node_to_two_and_back() -> None:
    cluster = GroupedCluster()
    single = ON_TWO_NODES | {"engine": {"backend": "vllm", "parallelism": {"tensor": 8}}}
    cluster.user_applies(single)
    await cluster.converge()
    cluster.user_applies(ON_TWO_NODES)
    await cluster.converge()
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == []
    assert len(cluster.sets()) == 1
    cluster.user_applies(single)
    await cluster.converge()
    assert cluster.sets() == []
    assert len(cluster.kube.names(resources.DEPLOYMENT, KEY[0])) == 1


async def test_groups_are_guarded_until_their_last_worker_is_gone() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES, replicas=2)
    await cluster.converge()
    (old,) = cluster.sets()
    single = {"backend": "vllm", "parallelism": {"tensor": 8}}
    cluster.user_applies(ON_TWO_NODES, engine=single, replicas=2)
    stages: list[int] = []
    while stages[-1:] != [0]:
        await cluster.reconcile()
        groups = [pod for pod in cluster.pods() if pod.startswith(f"{old}-")]
        stages.append(len(groups))
        assert cluster.sets() == [old] or not groups
        for pod in groups:
            worn = cluster.kube.peek(resources.POD, KEY[0], pod)["metadata"]["labels"].items()
            budget = cluster.kube.peek(resources.POD_DISRUPTION_BUDGET, *KEY)["spec"]
            policy = cluster.kube.peek(resources.NETWORK_POLICY, *KEY)["spec"]
            assert budget["selector"]["matchLabels"].items() <= worn
            assert policy["podSelector"]["matchLabels"].items() <= worn
            assert {"from": [{"podSelector": policy["podSelector"]}]} in policy["ingress"]
        cluster.controllers_act()
        assert len(stages) < 20
    assert {4, 3, 1} <= set(stages)
    await cluster.converge()
    assert cluster.kube.names(resources.NETWORK_POLICY, KEY[0]) == []


async def test_a_worker_without_a_node_is_what_the_replica_waits_for() -> None:
    cluster = GroupedCluster()
    cluster.workers_wait = True
    cluster.user_applies(ON_TWO_NODES, scaling={"minReplicas": 2, "maxReplicas": 2})
    await cluster.converge()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "WaitingForGPU"
    assert "2 replicas wait for 16 nvidia.com/gpu in pool big" in ready["message"]
    shortage = cluster.status()["shortage"]
    assert (shortage["replicas"], shortage["missing"]) == (2, 16)


async def test_a_quota_that_refuses_the_workers_is_what_the_replica_waits_for() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES)
    await cluster.reconcile()
    cluster.controllers_act()
    (name,) = cluster.sets()
    cluster.remove(resources.POD, f"{name}-0-1")
    cluster.set_pod_status(f"{name}-0", {"phase": "Pending", "conditions": []})
    cluster.refused = f"create Pod {name}-0-1 in StatefulSet {name}-0 failed: pods is forbidden: exceeded quota: gpus"
    cluster.controllers_act()
    await cluster.reconcile()
    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "QuotaExceeded")
    assert cluster.refused in ready["message"]
    cluster.refused = ""
    cluster.controllers_act()
    await cluster.reconcile()
    assert cluster.condition("Ready")["reason"] != "QuotaExceeded", "what is over is not told"


async def test_a_quota_that_refuses_every_pod_is_looked_at_again() -> None:
    cluster = GroupedCluster()
    cluster.refused = REFUSED
    cluster.user_applies(ON_TWO_NODES)
    await cluster.converge()
    assert cluster.pods() == []
    assert cluster.condition("Ready")["reason"] == "QuotaExceeded"
    assert await cluster.reconcile() == LATER, "nobody tells when the quota grows"


async def test_a_group_that_does_not_last_is_told_of_until_it_serves() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES)
    await cluster.converge()
    (name,) = cluster.sets()
    for pod in (f"{name}-0-1", f"{name}-0-2", f"{name}-0"):
        text = f"Worker pod {pod} failed, deleted leader pod {name}-0 to recreate group 0"
        cluster.tells("LeaderWorkerSet", name, "RecreateGroup", text)
    await cluster.reconcile()
    assert cluster.condition("Degraded")["status"] == "False"
    cluster.set_pod_status(f"{name}-0", {"conditions": [{"type": "Ready", "status": "False"}]})
    await cluster.reconcile()
    degraded = cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "CrashLoop")
    assert f"kubectl logs -f {name}-0" in degraded["message"]


async def test_one_group_s_refusal_is_told_beside_another_s_progress() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES, replicas=2)
    await cluster.converge()
    (name,) = cluster.sets()
    for group in (0, 1):
        cluster.remove(resources.POD, f"{name}-{group}-1")
        cluster.set_pod_status(f"{name}-{group}", {"phase": "Pending", "conditions": []})
    failed = f"Failed to create worker statefulset for leader pod {name}-0: exceeded quota: sets"
    cluster.tells("LeaderWorkerSet", name, "FailedCreate", failed)
    cluster.clock.elapsed += 1
    cluster.tells("LeaderWorkerSet", name, "GroupsProgressing", f"Created worker statefulset for leader pod {name}-1")
    await cluster.reconcile()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "QuotaExceeded"
    assert failed in ready["message"]
    assert not ready["message"].startswith("2 replicas"), "only one group's was refused"


async def test_where_leaders_are_missing_too_as_many_groups_are_read() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES, replicas=SHORT_GROUPS + 1)
    await cluster.converge()
    (name,) = cluster.sets()
    for group in range(SHORT_GROUPS):
        cluster.remove(resources.POD, f"{name}-{group}-1")
    for pod in (f"{name}-{SHORT_GROUPS}", f"{name}-{SHORT_GROUPS}-1"):
        cluster.remove(resources.POD, pod)
    seen = await observe_groups(cluster.kube, await observe(cluster.kube, KEY))
    assert set(seen.group_events) == {name, *(f"{name}-{group}" for group in range(SHORT_GROUPS))}


async def test_an_event_of_the_second_in_which_its_set_was_made_is_heard_whatever_its_precision() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES)
    await cluster.converge()
    (name,) = cluster.sets()
    made = cluster.kube.peek(resources.LEADER_WORKER_SET, KEY[0], name)["metadata"]["creationTimestamp"]
    cluster.remove(resources.POD, f"{name}-0-1")
    for at, reason in ((made.replace("Z", ".734512Z"), "FailedCreate"), (made, "SuccessfulCreate")):
        cluster.tells("StatefulSet", f"{name}-0", reason, REFUSED, at)
    seen = await observe_groups(cluster.kube, await observe(cluster.kube, KEY))
    assert [event.reason for event in seen.group_events[f"{name}-0"]] == ["SuccessfulCreate", "FailedCreate"]


async def test_an_older_group_of_the_same_name_does_not_speak() -> None:
    cluster = GroupedCluster()
    cluster.user_applies(ON_TWO_NODES)
    await cluster.converge()
    (name,) = cluster.sets()
    now, cluster.clock.elapsed = cluster.clock.elapsed, -3600.0
    for pod in (f"{name}-0-1", f"{name}-0-2", f"{name}-0"):
        text = f"Worker pod {pod} failed, deleted leader pod {name}-0 to recreate group 0"
        cluster.tells("LeaderWorkerSet", name, "RecreateGroup", text)
    cluster.clock.elapsed = now
    cluster.set_pod_status(f"{name}-0", {"conditions": [{"type": "Ready", "status": "False"}]})
    await cluster.reconcile()
    assert cluster.condition("Degraded")["status"] == "False"


async def test_without_leader_worker_sets_the_status_says_what_to_install() -> None:
    cluster = GroupedCluster()
    missing = NotServed("the server could not find the requested resource", status=404)
    cluster.kube.fail(missing, resource=resources.LEADER_WORKER_SET, times=99)
    cluster.user_applies(ON_TWO_NODES)
    await cluster.reconcile()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "ApiMissing"
    assert "install LeaderWorkerSet (kubernetes-sigs/lws), or write engine.parallelism.nodes: 1" in ready["message"]
    assert cluster.kube.names(resources.CONFIG_MAP, KEY[0]) == []


async def test_services_on_one_node_need_no_leader_worker_sets() -> None:
    cluster = GroupedCluster()
    missing = NotServed("the server could not find the requested resource", status=404)
    cluster.kube.fail(missing, resource=resources.LEADER_WORKER_SET, times=99)
    cluster.user_applies()
    await cluster.converge()
    assert cluster.status()["summary"] == "Serving"
