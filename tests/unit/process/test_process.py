"""What surrounds the loop: start-up checks, settings, pages, logs, routes, resync."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kopf
import pytest
from aiohttp.test_utils import TestClient, TestServer

from llmservice.api.crd import NAME, crd
from llmservice.handlers import WATCHED_CHILDREN, kopf_settings, routes
from llmservice.kube import resources
from llmservice.kube.errors import Forbidden, NotServed
from llmservice.kube.fake import FakeKube
from llmservice.kube.requests import Answered
from llmservice.process.checks import check_cluster, missing_fields
from llmservice.process.health import application
from llmservice.process.logs import JsonFormatter
from llmservice.process.metrics import OperatorMetrics, StateCollector
from llmservice.process.resync import resync
from llmservice.process.settings import StartupError, load_fleet, load_operator_key
from llmservice.process.state import ProcessState
from llmservice.reconcile import log_context
from llmservice.reconcile.work_queue import Key

pytestmark = pytest.mark.unit


class StillClock:
    """Time stands where a test puts it."""

    def __init__(self) -> None:
        self.elapsed = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.elapsed

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        self.elapsed += seconds or 0.0


def with_crd(**options: Any) -> FakeKube:
    kube = FakeKube(**options)
    kube.put(crd())
    return kube


async def test_a_cluster_that_has_what_it_takes_passes() -> None:
    await check_cluster(with_crd())


async def test_an_old_kubernetes_is_named_with_the_oldest_that_works() -> None:
    with pytest.raises(StartupError, match=r"1\.29 is too old.*1\.30 or later"):
        await check_cluster(with_crd(version=(1, 29)))


async def test_a_missing_crd_is_told_with_the_command_that_installs_it() -> None:
    kube = FakeKube()
    kube.unserved.add(resources.LLM_SERVICE)
    with pytest.raises(StartupError, match="llmservice crds"):
        await check_cluster(kube)


async def test_a_crd_older_than_the_operator_is_told_with_the_fields_it_lacks() -> None:
    kube = FakeKube()
    old = copy.deepcopy(crd())
    del old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["kvCache"]
    kube.put(old)
    with pytest.raises(StartupError, match=r"older than the operator and lacks spec\.kvCache"):
        await check_cluster(kube)


def test_a_newer_crd_lacks_nothing() -> None:
    newer = copy.deepcopy(crd())
    fields = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["later"] = {"type": "string"}
    assert list(missing_fields(newer)) == []


async def test_a_role_that_is_too_narrow_is_told() -> None:
    kube = with_crd()
    kube.fail(Forbidden("cannot get customresourcedefinitions", status=403), verb="get", name=NAME)
    with pytest.raises(StartupError, match="role is too narrow"):
        await check_cluster(kube)


def test_fleet_defaults_come_from_a_file_and_errors_name_file_and_field(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("pools: {cpu: {accelerator: cpu}}\npodMonitor: true\n")
    assert load_fleet(path).pod_monitor
    path.write_text("pool: {}\n")
    with pytest.raises(StartupError, match=r"fleet\.yaml.*(?s:.*)pool"):
        load_fleet(path)
    assert load_fleet(None).pools


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x89PNG", "not UTF-8 text"),
        (b"pools: [", "line 1: "),
        (b"pools: {}\npools: {}", "pools is written twice"),
        (b"{}\n---\na: 1\n---\nb: 1", "3 YAML documents: write one"),
        (b"5", "valid dictionary"),
        (b"wrong: 1\nimages: 5", "wrong: there is no such field"),
        (
            b"pools: {a: {template: {resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}}}",
            "the request of cpu is more than its limit: raise limits",
        ),
    ],
)
def test_a_file_that_holds_no_fleet_defaults_is_told_in_a_line(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_bytes(content)
    with pytest.raises(StartupError) as told:
        load_fleet(path)
    assert problem in str(told.value)
    assert "\n" not in str(told.value)
    assert str(path) in str(told.value)


@pytest.mark.parametrize(("content", "problem"), [(None, "No such file"), ("short", "at least 16")])
def test_a_key_that_is_none_is_told(tmp_path: Path, content: str | None, problem: str) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StartupError, match=problem):
        load_operator_key(path)


async def test_the_pages_tell_liveness_readiness_and_metrics() -> None:
    clock = StillClock()
    state, metrics = ProcessState(clock), OperatorMetrics()
    metrics.registry.register(StateCollector(state))
    state.services = lambda: {("chat", "llama"): True}
    state.desired_replicas = lambda: {("chat", "llama"): 3}
    metrics.passed(("chat", "llama"), 0.02, False)
    metrics.answered(Answered("get", "pods", 200, 0.01))
    async with TestClient(TestServer(application(state, metrics.registry))) as client:
        assert (await client.get("/readyz")).status == 503
        state.started = True
        assert (await client.get("/readyz")).status == 200, "a standby is ready"
        health = await client.get("/healthz")
        assert health.status == 200
        assert (await health.json())["leader"] is False
        state.answered(Answered("get", "pods", 200, 0.0123))
        assert (await (await client.get("/healthz")).json())["apiRoundTripSeconds"] == 0.012
        text = await (await client.get("/metrics")).text()
        assert "llmservice_operator_reconcile_total 1.0" in text
        assert 'llmservice_operator_api_requests_total{resource="pods",status="200",verb="get"} 1.0' in text
        assert 'llmservice_ready{name="llama",namespace="chat"} 1.0' in text
        assert "llmservice_operator_leader 0.0" in text
        assert 'llmservice_desired_replicas{name="llama",namespace="chat"} 3.0' in text
        state.loop_lag = 60.0
        stuck = await client.get("/healthz")
        assert stuck.status == 503
        assert "60.0 s late" in (await stuck.json())["reason"]


def test_a_log_line_is_json_with_the_service_and_generation_of_its_pass() -> None:
    record = logging.LogRecord("llmservice.x", logging.INFO, __file__, 1, "applied %s", ("Service",), None)
    with log_context.about(("chat", "llama")):
        log_context.note_generation(7)
        line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "applied Service"
    assert (line["service"], line["generation"]) == ("chat/llama", 7)
    assert "service" not in json.loads(JsonFormatter().format(record))


async def test_events_of_a_service_and_of_its_children_wake_the_service() -> None:
    woken: list[Key] = []

    async def login(**_: object) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server="https://localhost")

    registry = routes(woken.append, login)
    handlers = list(registry._watching._handlers)
    assert len(handlers) == 2 + len(WATCHED_CHILDREN)
    service, autoscaler, *children = handlers
    run: Any = service.fn
    await run(namespace="chat", name="llama", labels={})
    for child in children:
        run = child.fn
        await run(namespace="chat", name="llama-1a2b", labels={"app.kubernetes.io/instance": "llama"})
        await run(namespace="chat", name="other", labels={})
    run = autoscaler.fn
    await run(namespace="chat", spec={"scaleTargetRef": {"kind": "LLMService", "name": "llama"}})
    await run(namespace="chat", spec={"scaleTargetRef": {"kind": "Deployment", "name": "llama"}})
    await run(namespace="chat", spec={})
    assert woken == [("chat", "llama")] * (2 + len(WATCHED_CHILDREN))


def test_kopf_watches_only_labelled_children_and_writes_nothing() -> None:
    settings = kopf_settings()
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert len(settings.watching.label_selectors) == len(WATCHED_CHILDREN)
    assert set(settings.watching.label_selectors.values()) == {"app.kubernetes.io/managed-by=triton-llm-operator"}
    assert resources.SECRET not in WATCHED_CHILDREN


async def test_every_service_is_looked_at_again_now_and_then() -> None:
    kube, stop, woken = FakeKube(), asyncio.Event(), {}
    for name in ("a", "b"):
        kube.put(
            {
                "apiVersion": resources.LLM_SERVICE.api_version,
                "kind": "LLMService",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {},
            }
        )

    def wake(key: Key, after: float) -> None:
        woken[key[1]] = after
        if len(woken) == 2:
            stop.set()

    draws = iter([0.5, 0.1, 0.9])
    clock = StillClock()
    await resync(kube, wake, clock, stop, seconds=300, draw=lambda: next(draws))
    assert clock.elapsed == 270
    assert woken == {"a": pytest.approx(6), "b": pytest.approx(54)}


async def test_a_cluster_that_does_not_know_services_any_more_ends_the_process() -> None:
    kube, stop = FakeKube(), asyncio.Event()
    kube.fail(NotServed("no such resource", status=404), verb="list", resource=resources.LLM_SERVICE, times=1)
    with pytest.raises(NotServed):
        await resync(kube, lambda key, after: None, StillClock(), stop, seconds=300)
