"""What the fake offers to tests beyond the contract: a journal, faults, other actors, the past."""

from __future__ import annotations

import pytest

from llmservice.kube import resources as r
from llmservice.kube.errors import (
    Conflict,
    Forbidden,
    NamespaceTerminating,
    NotServed,
    TooManyRequests,
    Unavailable,
    from_status,
)
from llmservice.kube.fake import FakeKube
from llmservice.kube.faults import Call
from llmservice.kube.resources import Manifest
from tests.kube_contract.manifests import config_map, deployment

pytestmark = pytest.mark.unit

HERE = "default"


async def test_the_journal_tells_reads_from_writes() -> None:
    client = FakeKube()
    await client.get(r.CONFIG_MAP, HERE, "settings")
    await client.list(r.POD, HERE)
    await client.server_version()
    assert client.journal.writes() == []
    await client.apply(config_map(HERE))
    await client.apply_status({**config_map(HERE), "status": {}})
    await client.delete(r.CONFIG_MAP, HERE, "settings")
    assert client.journal.writes() == [
        Call("apply", r.CONFIG_MAP, HERE, "settings"),
        Call("apply", r.CONFIG_MAP, HERE, "settings", "status"),
        Call("delete", r.CONFIG_MAP, HERE, "settings"),
    ]
    assert list(client.journal.names("apply", r.CONFIG_MAP)) == ["settings", "settings"]


async def test_a_planned_fault_strikes_the_call_it_names() -> None:
    client = FakeKube()
    client.fail(TooManyRequests("slow down", retry_after=3), verb="apply", name="b", nth=2)
    for name in ("a", "b", "a"):
        await client.apply(config_map(HERE, name))
    with pytest.raises(TooManyRequests):
        await client.apply(config_map(HERE, "b"))
    await client.apply(config_map(HERE, "b"))


async def test_a_fault_after_the_write_loses_only_the_answer() -> None:
    client = FakeKube()
    client.fail(Unavailable("reset"), verb="apply", after_write=True)
    with pytest.raises(Unavailable):
        await client.apply(config_map(HERE))
    assert client.names(r.CONFIG_MAP) == ["settings"]


async def test_a_hook_runs_before_every_call_for_latency_or_a_race() -> None:
    client = FakeKube()
    created = await client.create(config_map(HERE))

    async def meddle(call: Call) -> None:
        if call.verb == "replace":
            client.change(r.CONFIG_MAP, HERE, "settings", lambda it: it["data"].update(theirs="1"))

    client.before = meddle
    with pytest.raises(Conflict):
        await client.replace(created)


async def test_stale_reads_show_the_past_while_writes_go_on() -> None:
    client = FakeKube()
    with client.stale_reads():
        await client.apply(config_map(HERE))
        assert await client.get(r.CONFIG_MAP, HERE, "settings") is None
        assert await client.list(r.CONFIG_MAP) == []
    assert await client.get(r.CONFIG_MAP, HERE, "settings") is not None


async def test_what_is_read_is_the_readers_own_copy() -> None:
    client = FakeKube()
    applied = await client.apply(config_map(HERE))
    applied["data"]["delay"] = "changed"
    listed = await client.list(r.CONFIG_MAP)
    listed[0]["data"]["delay"] = "changed"
    assert client.peek(r.CONFIG_MAP, HERE, "settings")["data"] == {"delay": "5"}


async def test_a_controller_sets_status_without_a_new_generation() -> None:
    client = FakeKube()
    await client.apply(deployment(HERE))
    client.set_status(r.DEPLOYMENT, HERE, "chat", {"readyReplicas": 1})
    found = client.set_status(r.DEPLOYMENT, HERE, "chat", {"replicas": 2})
    assert found["status"] == {"readyReplicas": 1, "replicas": 2}
    assert found["metadata"]["generation"] == 1
    assert (await client.apply(deployment(HERE, image="b")))["status"] == found["status"]


async def test_a_users_edit_takes_the_field_and_a_later_apply_takes_it_back() -> None:
    client = FakeKube()
    await client.apply(config_map(HERE))
    client.change(r.CONFIG_MAP, HERE, "settings", lambda it: it["data"].update(delay="9", theirs="1"))
    with pytest.raises(Conflict, match="kubectl"):
        await client.apply(config_map(HERE), force=False)
    assert (await client.apply(config_map(HERE)))["data"] == {"delay": "5", "theirs": "1"}


async def test_put_replaces_as_a_user_does_and_keeps_identity() -> None:
    client = FakeKube()
    first = client.put(config_map(HERE, labels={"a": "1"}))
    second = client.put(config_map(HERE, data={"other": "1"}))
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["data"] == {"other": "1"}
    assert "labels" not in second["metadata"]


async def test_garbage_waits_when_a_test_wants_to_see_it() -> None:
    client = FakeKube(automatic_garbage=False)
    owner = await client.apply(config_map(HERE, "owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = await client.apply(config_map(HERE, "child", ownerReferences=[reference]))
    reference = {**reference, "name": "child", "uid": child["metadata"]["uid"]}
    await client.apply(config_map(HERE, "grandchild", ownerReferences=[reference]))
    await client.delete(r.CONFIG_MAP, HERE, "owner")
    assert client.names(r.CONFIG_MAP) == ["child", "grandchild"]
    assert client.collect_garbage() == ["ConfigMap/child", "ConfigMap/grandchild"]


async def test_a_dying_namespace_takes_its_content_with_it() -> None:
    client = FakeKube(namespaces=["chat"])
    await client.apply(config_map("chat"))
    client.terminate_namespace("chat")
    with pytest.raises(NamespaceTerminating):
        await client.apply(config_map("chat", "late"))
    client.collect_garbage()
    assert client.names(r.CONFIG_MAP) == []


async def test_listeners_hear_every_change() -> None:
    client = FakeKube()
    heard: list[tuple[str, str]] = []
    client.listeners.append(lambda kind, manifest: heard.append((kind, manifest["metadata"]["name"])))
    await client.apply(config_map(HERE))
    await client.apply(config_map(HERE))
    await client.apply(config_map(HERE, data={"a": "1"}))
    await client.delete(r.CONFIG_MAP, HERE, "settings")
    assert heard == [("ADDED", "settings"), ("MODIFIED", "settings"), ("DELETED", "settings")]


async def test_admission_may_refuse() -> None:
    client = FakeKube()

    def quota(manifest: Manifest) -> None:
        if manifest["kind"] == "ConfigMap":
            raise Forbidden("exceeded quota", status=403)

    client.admission.append(quota)
    with pytest.raises(Forbidden):
        await client.apply(config_map(HERE))
    assert client.names(r.CONFIG_MAP) == []


async def test_a_resource_may_be_missing() -> None:
    client = FakeKube()
    client.unserved.add(r.POD_MONITOR)
    assert not await client.served(r.POD_MONITOR)
    with pytest.raises(NotServed):
        await client.list(r.POD_MONITOR)


async def test_logs_are_what_the_test_says() -> None:
    client = FakeKube()
    client.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat-0", "namespace": HERE}})
    client.pod_logs[HERE, "chat-0", "triton", True] = "one\ntwo\nthree\n"
    assert await client.logs(HERE, "chat-0", "triton", tail_lines=2, previous=True) == "two\nthree\n"


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(LookupError, match="v1, kind Toaster"):
        r.Resource.of({"apiVersion": "v1", "kind": "Toaster"})


def test_paths_are_the_api_servers() -> None:
    assert r.POD.path() == "/api/v1/pods"
    assert r.DEPLOYMENT.path("chat", "a", "status") == "/apis/apps/v1/namespaces/chat/deployments/a/status"
    assert r.NAMESPACE.path("ignored", "n1") == "/api/v1/namespaces/n1"
    with pytest.raises(ValueError, match="lives in a namespace"):
        r.POD.path(None, "a")


def test_an_error_without_a_status_object_keeps_its_text() -> None:
    error = from_status(502, {}, text="bad gateway")
    assert isinstance(error, Unavailable)
    assert str(error) == "bad gateway"
