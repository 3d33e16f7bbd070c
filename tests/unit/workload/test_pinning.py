"""A revision that runs stays as it is until somebody asks for other pods."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from llmservice.api.knobs import Knobs
from llmservice.repository.render import Role
from llmservice.workload.build import Workload
from llmservice.workload.owned_part import owned_part
from llmservice.workload.pinning import LiveRevision
from tests.unit.workload.workloads import SMOLLM, fleet, service, workload

pytestmark = pytest.mark.unit
NEW_OPERATOR = {"operatorImage": "registry.example/llmservice-operator:0.2.0"}


def stored(built: Workload, created: str = "2026-01-01T00:00:00Z") -> LiveRevision:
    """The revision as the API server has it: with defaults, and with fields of others."""
    deployment = deepcopy(built.manifest("Deployment"))
    applied = deepcopy(deployment)
    deployment["metadata"]["creationTimestamp"] = created
    deployment["metadata"]["managedFields"] = [
        {"manager": "kubectl-rollout", "operation": "Update", "fieldsV1": {"f:spec": {}}},
        {"manager": "triton-llm-operator", "operation": "Apply", "fieldsV1": fields_of(applied)},
    ]
    pod = deployment["spec"]["template"]
    pod["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "2026-01-02T00:00:00Z"
    pod["spec"] |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        container["terminationMessagePath"] = "/dev/termination-log"
    return LiveRevision(deployment, deepcopy(built.manifest("ConfigMap")))


KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
}
"""List maps of the Deployment's schema; every other list is atomic."""


def fields_of(value: Any, name: str = "") -> dict[str, Any]:
    """FieldsV1 of an applied object, as the API server writes it."""
    if isinstance(value, dict):
        return {f"f:{key}": fields_of(inner, key) for key, inner in value.items()}
    if isinstance(value, list) and name in KEYS:
        found = {}
        for item in value:
            key = json_key({field: item[field] for field in KEYS[name]})
            found[f"k:{key}"] = {".": {}, **fields_of(item)}
        return found
    return {}


def json_key(fields: dict[str, Any]) -> str:
    inner = ",".join(
        f'"{key}":{value}' if isinstance(value, int) else f'"{key}":"{value}"' for key, value in fields.items()
    )
    return "{" + inner + "}"


def test_an_upgrade_of_the_operator_changes_nothing() -> None:
    asked = service({"model": SMOLLM})
    before = workload(asked, fleet())
    after = workload(asked, fleet(NEW_OPERATOR), live=[stored(before)])
    assert after.kept
    assert after.revision == before.revision
    assert after.manifests == before.manifests


def test_without_the_live_revision_the_new_operator_would_render_another() -> None:
    asked = service({"model": SMOLLM})
    assert workload(asked, fleet(NEW_OPERATOR)).revision != workload(asked, fleet()).revision


def test_a_new_default_image_waits_for_the_next_revision_and_stays_visible() -> None:
    asked = service({"model": SMOLLM})
    before = workload(asked, fleet())
    newer = {"images": {"torch": {"image": "registry.example/triton-cpu:2.71.0", "tritonVersion": "2.71.0"}}}
    after = workload(asked, fleet(newer), live=[stored(before)])
    assert after.manifests[-1] == before.manifests[-1]


def test_other_pods_are_a_new_revision() -> None:
    before = workload(service({"model": SMOLLM}), fleet())
    after = workload(service({"model": SMOLLM, "kvCache": {"memoryPercent": 50}}), fleet(), live=[stored(before)])
    assert not after.kept
    assert after.revision != before.revision


def test_a_pool_that_is_edited_is_a_new_revision() -> None:
    asked = service({"model": SMOLLM})
    before = workload(asked, fleet())
    pools = {"pools": {"cpu": {"nodeSelector": {"disk": "fast"}}}}
    assert not workload(asked, fleet(pools), live=[stored(before)]).kept


def test_a_change_taken_back_finds_its_old_revision() -> None:
    first = workload(service({"model": SMOLLM}), fleet())
    second = workload(service({"model": SMOLLM, "kvCache": {"memoryPercent": 50}}), fleet(), live=[stored(first)])
    live = [stored(first), stored(second, created="2026-01-02T00:00:00Z")]
    back = workload(service({"model": SMOLLM}), fleet(NEW_OPERATOR), live=live)
    assert back.revision == first.revision


def test_a_revision_that_is_being_deleted_is_not_kept() -> None:
    asked = service({"model": SMOLLM})
    gone = stored(workload(asked, fleet()))
    gone.keeper["metadata"]["deletionTimestamp"] = "2026-01-03T00:00:00Z"
    assert not workload(asked, fleet(), live=[gone]).kept


def test_a_kept_revision_takes_the_new_delay_counts_and_slots_and_nothing_else_of_the_new_renderer() -> None:
    before = workload(service({"model": SMOLLM, "batching": {"mode": "Dynamic"}}), fleet())
    live = stored(before)
    older = {key: text.replace('"/models"', '"/weights"') for key, text in live.config_map["data"].items()}  # type: ignore[index]
    live.config_map["data"] = older  # type: ignore[index]
    knobs = Knobs.model_validate({"maxQueueDelay": "30ms", "engineInstances": 2, "slots": 5})
    after = workload(service({"model": SMOLLM, "batching": {"mode": "Dynamic"}}), fleet(), knobs, live=[live])
    gate, engine = after.repository.config(Role.GATE), after.repository.config(Role.ENGINE)
    assert gate.dynamic_batching.max_queue_delay_microseconds == 30_000
    assert engine.instance_group[0].count == 2
    assert engine.parameters["slots"].string_value == "5"
    assert engine.parameters["model_path"].string_value == "/weights"


def test_a_kept_engine_gets_no_more_slots_than_its_sequences_can_use() -> None:
    small = service({"model": SMOLLM, "batching": {"mode": "Dynamic", "maxSequences": 8}})
    live = stored(workload(small, fleet()))
    after = workload(small, fleet(), Knobs.model_validate({"slots": 66}), live=[live])
    assert after.kept
    assert after.repository.config(Role.ENGINE).parameters["slots"].string_value == "10"


def test_a_kept_gate_gets_no_preferred_size_that_its_batch_does_not_hold() -> None:
    batching = {"mode": "Dynamic", "maxSequences": 16, "preferredBatchSizes": [4, 16]}
    asked = service({"model": SMOLLM, "batching": batching})
    live = stored(workload(asked, fleet()))
    smaller = {key: text.replace("max_batch_size: 16", "max_batch_size: 8") for key, text in data_of(live).items()}
    data_of(live).update(smaller)
    after = workload(asked, fleet(), Knobs.model_validate({"maxQueueDelay": "30ms"}), live=[live])
    assert list(after.repository.config(Role.GATE).dynamic_batching.preferred_batch_size) == [4]


def data_of(live: LiveRevision) -> dict[str, str]:
    assert live.config_map is not None
    data: dict[str, str] = live.config_map["data"]
    return data


def test_an_unchanged_kept_revision_keeps_its_configuration_to_the_letter() -> None:
    asked = service({"model": SMOLLM})
    live = stored(workload(asked, fleet()))
    key = next(key for key in live.config_map["data"] if key.startswith("chat_."))  # type: ignore[index]
    live.config_map["data"][key] += "# as an older renderer wrote it\n"  # type: ignore[index]
    after = workload(asked, fleet(NEW_OPERATOR), live=[live])
    assert after.manifest("ConfigMap")["data"] == live.config_map["data"]  # type: ignore[index]


def test_a_lost_config_map_is_rendered_again() -> None:
    asked = service({"model": SMOLLM})
    before = workload(asked, fleet())
    after = workload(asked, fleet(), live=[LiveRevision(stored(before).keeper)])
    assert after.kept
    assert after.manifest("ConfigMap") == before.manifest("ConfigMap")


def test_an_object_that_names_no_owners_is_taken_whole() -> None:
    asked = service({"model": SMOLLM})
    live = stored(workload(asked, fleet()))
    del live.keeper["metadata"]["managedFields"]
    assert live.template == live.keeper["spec"]["template"]


def test_the_owned_part_leaves_out_defaults_other_writers_and_foreign_list_items() -> None:
    live = {
        "metadata": {
            "managedFields": [
                {
                    "manager": "us",
                    "operation": "Apply",
                    "fieldsV1": {
                        "f:spec": {
                            "f:ports": {'k:{"port":80}': {".": {}, "f:port": {}}},
                            "f:set": {'v:"a"': {}},
                            "f:atomic": {},
                        }
                    },
                }
            ]
        },
        "spec": {
            "ports": [{"port": 80, "protocol": "TCP"}, {"port": 90}],
            "set": ["a", "b"],
            "atomic": [1, 2],
            "other": True,
        },
    }
    assert owned_part(live, "us") == {"spec": {"ports": [{"port": 80}], "set": ["a"], "atomic": [1, 2]}}
    assert owned_part(live, "them") is None
