"""The count of engine instances in the loop: bounded by the plan, brought in place, kept for new pods, given up."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.capacity.pools import with_built_in_pools
from llmservice.kube import resources
from llmservice.reconcile.intent import Intent, intend
from llmservice.reconcile.tuning_frame import settings_of
from llmservice.repository.render import Repository, Role
from tests.unit.reconcile.small_cluster import KEY, OPERATOR_KEY, SmallCluster

pytestmark = pytest.mark.unit
FLEET = with_built_in_pools(FleetDefaults(built_in_pools=["*"]))
SPEC: dict[str, Any] = {
    "model": {"source": {"huggingFace": {"repo": "meta-llama/Llama-2-7b-chat-hf", "revision": "0" * 40}}},
    "engine": {"backend": "torch"},
    "batching": {"mode": "Dynamic", "maxSequences": 4},
    "placement": {"pool": "a100-80gb"},
    "tuning": {"bounds": {"engineInstances": {"min": 1, "max": 3}}},
}


def intent(tuned: Knobs | None = None, status: dict[str, Any] | None = None, **changes: Any) -> Intent:
    manifest = {"metadata": {"name": "chat", "namespace": "default"}, "spec": copy.deepcopy({**SPEC, **changes})}
    found = intend(manifest | {"status": status or {}}, FLEET, OPERATOR_KEY, tuned=tuned)
    assert isinstance(found, Intent)
    return found


def count(repository: Repository) -> int:
    return sum(group.count for group in repository.config(Role.ENGINE).instance_group)


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, 2),
        ({"batching": {"mode": "Dynamic", "maxSequences": 2}}, 3),
        ({"batching": {"mode": "Dynamic", "maxSequences": 16}}, 1),
        ({"batching": {"mode": "Continuous", "maxSequences": 4}}, 1),
        ({"batching": {"mode": "None"}}, 3),
        ({"engine": {"backend": "vllm"}}, 1),
        ({"tuning": {"bounds": {"engineInstances": {"min": 2, "max": 2}}}}, 2),
    ],
    ids=["memory", "small batches", "large batches", "continuous", "none", "vllm", "fixed"],
)
def test_the_tuner_may_have_as_many_as_the_plan_has_memory_for(changes: dict[str, Any], most: int) -> None:
    assert settings_of(intent(**changes), FLEET).limits.instances_in_memory == most


def test_what_the_tuner_decides_is_in_the_files_of_new_pods_and_needs_no_new_revision() -> None:
    before, after = intent(), intent(Knobs(engine_instances=2, slots=6))
    assert (count(before.workload.repository), count(after.workload.repository)) == (1, 2)
    assert after.workload.revision == before.workload.revision


def test_more_than_memory_holds_is_not_brought() -> None:
    assert count(intent(Knobs(engine_instances=3, slots=6)).repository) == 2


def test_a_batch_that_leaves_no_room_takes_the_other_instance_away() -> None:
    learnt = {"knobs": {"engineInstances": 2, "slots": 6}}
    assert intent(status=learnt).knobs.engine_instances == 2
    larger = intent(status=learnt, batching={"mode": "Dynamic", "maxSequences": 16})
    assert larger.knobs.engine_instances == 1
    assert any("1 of 3 engine instances with 16 sequences" in warning for warning in larger.warnings)
    assert intent(status=learnt, batching={"mode": "Continuous", "maxSequences": 4}).knobs.engine_instances == 1


def test_the_delay_of_a_gate_that_batches_nothing_is_left_alone() -> None:
    assert settings_of(intent(), FLEET).delay_binds
    assert not settings_of(intent(batching={"mode": "None"}), FLEET).delay_binds


async def test_pods_that_serve_keep_their_cache_when_the_spec_allows_another_instance() -> None:
    cluster, batching = SmallCluster(FLEET), {"mode": "Dynamic"}
    cluster.user_applies({**SPEC, "batching": batching, "tuning": {"mode": "Off"}})
    await cluster.converge()
    deployments, held = cluster.kube.names(resources.DEPLOYMENT, KEY[0]), cluster.status()["capacity"]["maxSequences"]
    cluster.user_applies({**SPEC, "batching": batching})
    await cluster.converge()
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == deployments
    assert cluster.status()["capacity"]["maxSequences"] == held > 8
    assert any("1 of 3 engine instances" in warning for warning in cluster.status()["warnings"])
