"""The loop reaches what the spec asks for, from anywhere, and then leaves the world alone."""

from __future__ import annotations

from functools import partial

import pytest

from llmservice.kube import resources
from llmservice.kube.resources import Manifest
from tests.unit.reconcile.small_cluster import KEY, SmallCluster

pytestmark = pytest.mark.unit

OTHER_IMAGE = {"engine": {"image": "registry.example/triton:2"}}


async def test_a_new_service_becomes_ready(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("Progressing")["reason"] == "Settled"
    assert cluster.condition("Degraded")["status"] == "False"
    assert cluster.status()["summary"] == "Serving"
    assert cluster.status()["replicasSummary"] == "1/1"
    assert len(cluster.kube.names(resources.DEPLOYMENT, KEY[0])) == 1


async def test_a_pass_over_an_unchanged_world_writes_nothing(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    for _ in range(5):
        assert await cluster.writes_of_a_pass() == []


async def test_a_new_process_writes_only_the_secret_that_it_cannot_read(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    cluster.restart()
    assert [call.resource for call in await cluster.writes_of_a_pass()] == [resources.SECRET]
    assert await cluster.writes_of_a_pass() == []


async def test_there_and_back_again_is_where_it_began(cluster: SmallCluster) -> None:
    cluster.user_applies(replicas=2)
    await cluster.converge()
    first = cluster.picture()
    cluster.user_applies(OTHER_IMAGE, replicas=2)
    await cluster.converge()
    second = cluster.picture()
    assert second != first
    cluster.user_applies(replicas=2)
    await cluster.converge()
    back = cluster.picture()
    assert set(back) == set(first)
    assert back["status"]["revision"] == first["status"]["revision"]


async def test_a_replaced_revision_leaves_nothing_behind(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    (old,) = cluster.kube.names(resources.DEPLOYMENT, KEY[0])
    cluster.user_applies(OTHER_IMAGE)
    await cluster.converge()
    (new,) = cluster.kube.names(resources.DEPLOYMENT, KEY[0])
    assert new != old
    assert cluster.kube.names(resources.CONFIG_MAP, KEY[0]) == [new]


async def test_replicas_keep_serving_while_a_revision_is_replaced(cluster: SmallCluster) -> None:
    cluster.user_applies(replicas=3)
    await cluster.converge()
    cluster.user_applies(OTHER_IMAGE, replicas=3)
    for _ in range(20):
        await cluster.reconcile()
        cluster.controllers_act()
        assert len(cluster.pods()) >= 3
    assert await cluster.converge() <= 2


async def test_what_somebody_changed_by_hand_is_put_right(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    cluster.kube.change(resources.SERVICE, *KEY, lambda it: it["spec"].update(selector={"app": "other"}))
    assert [call.resource for call in await cluster.writes_of_a_pass()] == [resources.SERVICE]
    assert "app" not in cluster.kube.peek(resources.SERVICE, *KEY)["spec"]["selector"]


async def test_a_child_that_somebody_deleted_comes_back(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    cluster.remove(resources.SERVICE_ACCOUNT, "chat")
    await cluster.converge()
    assert cluster.kube.names(resources.SERVICE_ACCOUNT, KEY[0]) == ["chat"]


async def test_fields_of_others_are_left_alone(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    cluster.kube.change(resources.SERVICE, *KEY, lambda it: it["metadata"]["annotations"].update(team="chat"))
    assert await cluster.writes_of_a_pass() == []
    assert cluster.kube.peek(resources.SERVICE, *KEY)["metadata"]["annotations"]["team"] == "chat"


async def test_replicas_follow_the_spec(cluster: SmallCluster) -> None:
    cluster.user_applies(replicas=1)
    await cluster.converge()
    cluster.user_applies(replicas=3)
    await cluster.converge()
    assert cluster.status()["replicasSummary"] == "3/3"
    cluster.user_applies(replicas=0)
    await cluster.converge()
    assert cluster.condition("Ready")["reason"] == "ScaledToZero"
    assert cluster.status()["phase"] == "Idle"
    assert cluster.pods() == []


async def test_nothing_is_written_without_leadership(cluster: SmallCluster) -> None:
    cluster.user_applies()
    cluster.leads = False
    assert await cluster.writes_of_a_pass() == []


async def test_leadership_lost_between_two_writes_ends_the_pass(cluster: SmallCluster) -> None:
    cluster.user_applies()

    async def lose(call: object) -> None:
        if len(cluster.kube.journal.writes()) == 2:
            cluster.leads = False

    cluster.kube.before = lose
    await cluster.reconcile()
    assert len(cluster.kube.journal.writes()) == 2
    cluster.kube.before = None
    cluster.leads = True
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"


async def test_an_autoscaler_finds_replicas_to_scale_and_owns_them_from_then_on(cluster: SmallCluster) -> None:
    cluster.user_applies(scaling={"minReplicas": 2, "maxReplicas": 4})
    cluster.kube.put(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "scaler", "namespace": KEY[0]},
            "spec": {"scaleTargetRef": {"kind": "LLMService", "name": "chat"}},
        }
    )
    await cluster.converge()
    assert cluster.service()["spec"]["replicas"] == 2
    cluster.kube.change(resources.LLM_SERVICE, *KEY, lambda it: it["spec"].update(replicas=4))
    await cluster.converge()
    assert cluster.service()["spec"]["replicas"] == 4
    assert len(cluster.pods()) == 4


async def test_a_kind_that_is_not_served_is_left_out() -> None:
    cluster = SmallCluster()
    cluster.fleet = cluster.fleet.model_copy(update={"pod_monitor": True})
    cluster.restart()
    cluster.kube.unserved.add(resources.POD_MONITOR)
    cluster.user_applies()
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"


async def test_a_deleted_service_is_forgotten(cluster: SmallCluster) -> None:
    cluster.user_applies()
    await cluster.converge()
    await cluster.kube.delete(resources.LLM_SERVICE, *KEY)
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == []
    assert await cluster.reconcile() is None
    assert cluster.loop.ready == {}


async def test_a_service_that_is_being_deleted_gets_no_new_children(cluster: SmallCluster) -> None:
    cluster.user_applies()
    cluster.kube.change(
        resources.LLM_SERVICE,
        *KEY,
        lambda it: it["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["test/hold"]),
    )
    await cluster.reconcile()
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == []
    assert cluster.status()["phase"] == "Deleting"


@pytest.mark.parametrize(
    "message", ['secret "chat-triton" not found', "couldn't find key token in Secret default/chat-triton"]
)
async def test_a_deleted_secret_is_written_again_once_a_pod_misses_it(cluster: SmallCluster, message: str) -> None:
    cluster.user_applies()
    await cluster.converge()
    cluster.remove(resources.SECRET, "chat-triton")
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    status = {"name": "triton", "ready": False, "restartCount": 1, "state": {"waiting": waiting}, "image": "t"}
    conditions = [{"type": "Ready", "status": "False"}]
    cluster.set_pod_status(cluster.pods()[0], {"containerStatuses": [status], "conditions": conditions})
    await cluster.reconcile()
    assert cluster.kube.names(resources.SECRET, KEY[0]) == ["chat-triton"]
    assert cluster.condition("Ready")["reason"] == "SecretMissing"


@pytest.mark.parametrize("text", ["name: 'other'", "{"], ids=["another configuration", "nonsense"])
async def test_an_edited_config_map_is_rendered_again(cluster: SmallCluster, text: str) -> None:
    cluster.user_applies()
    await cluster.converge()
    before = cluster.picture()
    (name,) = cluster.kube.names(resources.CONFIG_MAP, KEY[0])
    for key in cluster.kube.peek(resources.CONFIG_MAP, KEY[0], name)["data"]:
        edit: dict[str, str] = {key: text}
        cluster.kube.change(resources.CONFIG_MAP, KEY[0], name, partial(overwrite, edit))
        await cluster.converge()
        assert cluster.picture() == before


def overwrite(edit: dict[str, str], stored: Manifest) -> None:
    stored["data"].update(edit)
