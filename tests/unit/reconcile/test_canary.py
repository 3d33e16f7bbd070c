"""A change of knobs on one pod: begun, promoted, undone, ended early, and gone on with by another process."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.status import LLMServiceStatus
from llmservice.cli.explain import story
from llmservice.kube import resources
from tests.unit.reconcile.small_cluster import KEY
from tests.unit.reconcile.tried_cluster import FAST, PODS, SLOW, SPEC, Death, TriedCluster

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("misses_are_known")]


@pytest.fixture
def tried() -> TriedCluster:
    return TriedCluster()


async def test_one_pod_of_four_gets_the_change_and_everybody_is_told(tried: TriedCluster) -> None:
    pod = await tried.until_tried()
    delays = tried.delays()
    assert delays.pop(pod) == 22000
    assert set(delays.values()) == {0}
    status = tried.status()
    assert status["knobs"]["maxQueueDelay"] == "0ms"
    assert tried.canary["knobs"]["maxQueueDelay"] == "22ms"
    assert f"replica {pod} tries it first" in status["tuning"]["decisions"][0]["reason"]
    assert ("Normal", "Tuned") in tried.events()
    told = "\n".join(str(line) for line in story("chat", LLMServiceStatus.model_validate(status)))
    assert f"Replica {pod} tries another setting since" in told


async def test_what_the_canary_proves_comes_to_all_and_to_no_pod_twice(tried: TriedCluster) -> None:
    await tried.until_tried()
    for _ in range(3):
        tried.window(FAST)
        await tried.converge()
    tried.assert_all_alike_in_knobs(22000)
    assert set(tried.triton.changed.values()) == {1}
    assert tried.status()["knobs"]["maxQueueDelay"] == "22ms"
    assert "proven on one replica" in tried.status()["tuning"]["decisions"][0]["reason"]


async def test_what_is_slower_on_the_canary_is_undone_there_and_comes_to_no_other(tried: TriedCluster) -> None:
    pod = await tried.until_tried()
    await tried.settle(SLOW)
    tried.assert_all_alike()
    assert tried.triton.changed == {pod: 2}
    assert "undone" in tried.status()["tuning"]["decisions"][0]["reason"]
    for _ in range(20):
        tried.window()
        await tried.converge()
    assert tried.triton.changed == {pod: 2}, "nothing is tried for an hour"


async def test_a_new_process_goes_on_with_the_trial_and_touches_no_pod(tried: TriedCluster) -> None:
    pod = await tried.until_tried()
    tried.window(FAST)
    tried.window(FAST)
    await tried.converge()
    counted = tried.memory["trial"]["requests"]
    assert counted == FAST.requests
    changed = dict(tried.triton.changed)
    tried.restart()
    await tried.converge()
    assert tried.triton.changed == changed
    assert (tried.canary["replica"], tried.memory["trial"]["requests"]) == (pod, counted)
    tried.window(FAST)
    await tried.settle()
    tried.assert_all_alike()


async def test_a_new_process_finishes_a_promotion_that_only_the_memory_knows_of(tried: TriedCluster) -> None:
    await tried.until_tried()
    tried.window(FAST)
    tried.window(FAST)
    tried.window(FAST)
    tried.triton.deadly, tried.triton.after = tried.triton.calls + 2, True
    with pytest.raises(Death):
        await tried.reconcile()
    assert tried.status()["knobs"]["maxQueueDelay"] == "0ms"
    tried.restart()
    await tried.converge()
    tried.assert_all_alike_in_knobs(22000)
    assert set(tried.triton.changed.values()) == {1}


async def lost(tried: TriedCluster, pod: str) -> None:
    tried.kill(pod)


async def edited(tried: TriedCluster, pod: str) -> None:
    tried.user_applies({**SPEC, "scaling": {**SPEC["scaling"], "maxReplicas": 6}})


async def seeded(tried: TriedCluster, pod: str) -> None:
    tried.user_applies({**SPEC, "batching": {**SPEC["batching"], "maxQueueDelay": "7ms"}})


async def rolled(tried: TriedCluster, pod: str) -> None:
    tried.user_applies({**SPEC, "engine": {"image": "registry.example/triton:2"}})


async def only_observed(tried: TriedCluster, pod: str) -> None:
    tried.user_applies({**SPEC, "tuning": {"mode": "Observe"}})


async def turned_off(tried: TriedCluster, pod: str) -> None:
    tried.user_applies({**SPEC, "tuning": {"mode": "Off"}})


async def refused(tried: TriedCluster, pod: str) -> None:
    tried.triton.refuses, tried.triton.running[pod] = (
        pod,
        tried.triton.running[next(p for p in tried.pods() if p != pod)],
    )
    for _ in range(3):
        await tried.reconcile()
        tried.window()
    tried.triton.refuses = ""


async def forgotten(tried: TriedCluster, pod: str) -> None:
    tried.remove(resources.CONFIG_MAP, f"{KEY[1]}-tuning")
    tried.restart()


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (lost, "serves no more"),
        (edited, "somebody changed the service"),
        (seeded, "somebody changed the service"),
        (rolled, "somebody changed the service"),
        (only_observed, "somebody changed the service"),
        (turned_off, ""),
        (refused, "did not take the change"),
        (forgotten, ""),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_what_comes_in_between_ends_the_trial_with_all_pods_alike(
    tried: TriedCluster, happens: Any, why: str
) -> None:
    pod = await tried.until_tried()
    await happens(tried, pod)
    for _ in range(3):
        await tried.survive()
        tried.window()
    await tried.survive()
    tried.assert_all_alike()
    if why:
        assert why in str(tried.status()["tuning"]["decisions"])


async def test_a_new_pod_starts_with_the_old_setting_and_follows_with_the_others(tried: TriedCluster) -> None:
    pod = await tried.until_tried()
    other = next(one for one in tried.pods() if one != pod)
    tried.kill(other)
    await tried.converge()
    assert tried.canary["replica"] == pod
    assert sorted(tried.delays().values()) == [0] * (PODS - 1) + [22000]
    await tried.settle()
    tried.assert_all_alike()


async def test_a_canary_that_is_never_seen_ends_by_its_time(tried: TriedCluster) -> None:
    await tried.until_tried()
    for _ in range(125):
        tried.blind_window()
    await tried.converge()
    tried.assert_all_alike()
    assert "no verdict in time" in str(tried.status()["tuning"]["decisions"])


async def test_two_replicas_have_no_canary_and_the_reason_says_so(tried: TriedCluster) -> None:
    tried.user_applies({**SPEC, "scaling": {"minReplicas": 2, "maxReplicas": 2}})
    await tried.converge()
    for _ in range(8):
        tried.window()
        await tried.converge()
    assert not tried.canary
    reasons = str(tried.status()["tuning"]["decisions"])
    assert "no replica tries it first: that takes 3, and 2 serve" in reasons


async def test_turned_off_every_replica_takes_a_change_at_once(tried: TriedCluster) -> None:
    tried.user_applies({**SPEC, "rollout": {"canary": "Off"}})
    await tried.converge()
    for _ in range(6):
        tried.window()
        await tried.converge()
    assert not tried.canary
    assert set(tried.delays().values()) == {22000}
