"""A newer operator plans otherwise: what stands goes on, and only what is new is held to the new plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import SLOT_LOOKAHEAD
from llmservice.api.plan import CapacityPlan
from llmservice.capacity.plan import UNKNOWN_SEQUENCES, plan
from llmservice.kube import resources
from llmservice.reconcile.intent import Intent, intend
from llmservice.reconcile.observe import observe
from llmservice.reconcile.tuning_frame import settings_of
from llmservice.repository.render import Repository, Role
from llmservice.workload.pinning import LiveRevision
from tests.unit.reconcile.small_cluster import KEY, OPERATOR_KEY, SmallCluster

pytestmark = pytest.mark.unit

ON_VLLM: dict[str, Any] = {
    "engine": {"backend": "vllm"},
    "placement": {"pool": "cpu"},
    "batching": {"mode": "Dynamic", "maxQueueDelay": "50ms"},
    "template": {"resources": {"limits": {"memory": "4Gi"}}},
}
FLEET = FleetDefaults.model_validate({"pools": {"cpu": {"accelerator": "cpu"}}})
REFUSALS: dict[str, Callable[[CapacityPlan], CapacityPlan]] = {
    "more memory is counted": lambda old: replace(
        old, fits=False, reason="It needs more.", remedies=("Write less.",), max_sequences=1, kv_tokens=0
    ),
    "a limit is known": lambda old: replace(old, fits=False, reason="No such type.", remedies=("Write another.",)),
}


@pytest.fixture(params=list(REFUSALS.values()), ids=list(REFUSALS))
async def upgraded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SmallCluster:
    """Two replicas that serve, and a newer operator whose plan refuses them."""
    cluster = SmallCluster(FLEET)
    cluster.user_applies(ON_VLLM, replicas=2)
    await cluster.converge()
    assert cluster.condition("CapacityFits")["status"] == "True"
    monkeypatch.setattr("llmservice.reconcile.intent.plan_capacity", lambda *asked: request.param(plan(*asked)))
    cluster.restart()
    await cluster.converge()
    return cluster


def replicas_asked(cluster: SmallCluster) -> int:
    (name,) = cluster.kube.names(resources.DEPLOYMENT, KEY[0])
    found: int = cluster.kube.peek(resources.DEPLOYMENT, KEY[0], name)["spec"]["replicas"]
    return found


async def test_what_serves_goes_on_and_the_plan_is_told_beside_it(upgraded: SmallCluster) -> None:
    said = {kind: upgraded.condition(kind)["status"] for kind in ("Ready", "Degraded", "Progressing")}
    assert said == {"Ready": "True", "Degraded": "False", "Progressing": "False"}
    fits = upgraded.condition("CapacityFits")
    assert (fits["status"], fits["reason"]) == ("False", "DoesNotFit")
    (remedy,) = upgraded.status()["capacity"]["remedies"]
    assert remedy in fits["message"]
    assert upgraded.status()["summary"] == "Serving"
    assert await upgraded.writes_of_a_pass() == []


async def test_the_tuner_is_not_bound_by_a_plan_that_refuses_what_serves(upgraded: SmallCluster) -> None:
    live = [LiveRevision(keeper) for keeper in (await observe(upgraded.kube, KEY)).keepers.values()]
    found = intend(upgraded.service(), FLEET, OPERATOR_KEY, live)
    assert isinstance(found, Intent)
    limits = settings_of(found, FLEET).limits
    assert (limits.max_sequences, limits.kv_tokens) == (UNKNOWN_SEQUENCES, 0)


@pytest.mark.parametrize("counts", [(3,), (0, 2)], ids=["up", "to zero and back"])
async def test_the_user_s_replicas_are_brought(upgraded: SmallCluster, counts: tuple[int, ...]) -> None:
    for count in counts:
        upgraded.user_applies(ON_VLLM, replicas=count)
        await upgraded.converge()
        assert (replicas_asked(upgraded), len(upgraded.pods())) == (count, count)
    assert upgraded.condition("Ready")["reason"] == "Serving"


async def test_live_knobs_are_brought_and_slots_stay_those_of_the_engines(upgraded: SmallCluster) -> None:
    upgraded.user_applies(ON_VLLM, replicas=2, batching={"mode": "Dynamic", "maxQueueDelay": "7ms"})
    await upgraded.converge()
    assert len(upgraded.live.brought) == 2
    for config in upgraded.live.brought.values():
        assert json.loads(config)["dynamic_batching"]["max_queue_delay_microseconds"] == "7000"
    (name,) = upgraded.kube.names(resources.CONFIG_MAP, KEY[0])
    data = upgraded.kube.peek(resources.CONFIG_MAP, KEY[0], name)["data"]
    engine = Repository.from_config_map_data(data).config(Role.ENGINE).parameters
    sequences = int(engine["max_sequences"].string_value)
    assert sequences > 1
    assert int(engine["slots"].string_value) == sequences + SLOT_LOOKAHEAD
    assert upgraded.status()["capacity"]["maxSequences"] == sequences


async def test_a_new_revision_is_blocked_until_the_spec_is_as_it_was(upgraded: SmallCluster) -> None:
    before = upgraded.kube.names(resources.DEPLOYMENT, KEY[0])
    upgraded.user_applies(ON_VLLM, replicas=3, engine={"backend": "vllm", "parameters": {"enforce_eager": "true"}})
    await upgraded.converge()
    assert upgraded.condition("Ready")["reason"] == "DoesNotFit"
    assert (upgraded.kube.names(resources.DEPLOYMENT, KEY[0]), replicas_asked(upgraded)) == (before, 2)
    upgraded.user_applies(ON_VLLM, replicas=3)
    await upgraded.converge()
    assert (upgraded.kube.names(resources.DEPLOYMENT, KEY[0]), replicas_asked(upgraded)) == (before, 3)


async def test_a_pod_that_starts_again_is_no_misfit(upgraded: SmallCluster) -> None:
    upgraded.pods_become = "pending"
    for pod in upgraded.pods():
        upgraded.remove(resources.POD, pod)
    await upgraded.converge()
    ready = upgraded.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Starting")
    assert upgraded.condition("CapacityFits")["reason"] == "DoesNotFit"
