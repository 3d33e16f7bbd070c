"""An Event for each thing that happened, counted when it happens again, and never a failed pass for it."""

from __future__ import annotations

import logging

import pytest

from llmservice.kube.errors import Forbidden
from llmservice.kube.events import EventType, Recorder, event_name, last_seen
from llmservice.kube.fake import FakeKube
from llmservice.kube.faults import Call
from llmservice.kube.resources import EVENT, Manifest
from tests.unit.kube.clocks import ManualClock

pytestmark = pytest.mark.unit

CHAT: Manifest = {
    "apiVersion": "triton-llm.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "chat", "namespace": "default", "uid": "u1", "resourceVersion": "7"},
}


async def test_the_same_thing_again_raises_the_count() -> None:
    client, clock = FakeKube(), ManualClock()
    recorder = Recorder(client, "operator-0", clock)
    for _ in range(3):
        assert await recorder.record(CHAT, reason="Serving", message="2 of 2 replicas serve")
        await clock.advance(60)
    (event,) = await client.list(EVENT, "default")
    assert event["count"] == 3
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["lastTimestamp"] == "2026-01-01T00:02:00Z"
    assert event["involvedObject"]["uid"] == "u1"
    assert event["type"] == "Normal"
    assert event["reportingInstance"] == "operator-0"


async def test_another_reason_message_or_object_is_another_event() -> None:
    client = FakeKube()
    recorder = Recorder(client)
    reborn = {**CHAT, "metadata": {**CHAT["metadata"], "uid": "u2"}}
    await recorder.record(CHAT, reason="Serving", message="a")
    await recorder.record(CHAT, reason="Serving", message="b")
    await recorder.record(CHAT, reason="Starting", message="a", kind=EventType.WARNING)
    await recorder.record(reborn, reason="Serving", message="a")
    assert len(client.names(EVENT)) == 4


async def test_two_processes_write_the_same_event() -> None:
    client = FakeKube()
    for instance in ("operator-0", "operator-1"):
        await Recorder(client, instance).record(CHAT, reason="Serving", message="a")
    (event,) = await client.list(EVENT)
    assert event["count"] == 2


async def test_an_event_that_expires_between_two_calls_starts_again() -> None:
    client = FakeKube()
    recorder = Recorder(client)
    await recorder.record(CHAT, reason="Serving", message="a")

    async def expire(call: Call) -> None:
        if call.verb == "get":
            client.before = None
            await client.delete(EVENT, "default", call.name)

    client.before = expire
    assert await recorder.record(CHAT, reason="Serving", message="a")
    (event,) = await client.list(EVENT)
    assert event["count"] == 1


async def test_an_event_counted_by_another_process_meanwhile_is_enough() -> None:
    client = FakeKube()
    recorder = Recorder(client)
    await recorder.record(CHAT, reason="Serving", message="a")

    async def count(call: Call) -> None:
        if call.verb == "replace":
            client.before = None
            client.change(EVENT, "default", call.name, lambda event: event.update(count=2))

    client.before = count
    assert await recorder.record(CHAT, reason="Serving", message="a")


async def test_a_refused_event_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeKube()
    client.fail(Forbidden("no events for you", status=403))
    with caplog.at_level(logging.WARNING):
        assert not await Recorder(client).record(CHAT, reason="Serving", message="a")
    assert "no events for you" in caplog.text


async def test_an_event_in_a_namespace_that_goes_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeKube(namespaces=["default"])
    client.terminate_namespace("default")
    with caplog.at_level(logging.INFO):
        assert not await Recorder(client).record(CHAT, reason="NamespaceTerminating", message="a")
    assert caplog.text == ""


async def test_what_is_too_long_for_the_api_server_is_cut() -> None:
    client = FakeKube()
    long = {**CHAT, "metadata": {**CHAT["metadata"], "name": "c" * 253}}
    await Recorder(client).record(long, reason="ModelLoadFailed", message="ü" * 2000)
    (event,) = await client.list(EVENT)
    assert len(event["message"].encode()) <= 1024
    assert event["message"].endswith("...")
    assert len(event_name(long, "a", "b")) == 253


def test_events_are_in_the_order_of_their_instants_whatever_their_precision() -> None:
    whole: Manifest = {"metadata": {}, "lastTimestamp": "2026-01-01T00:00:05Z"}
    micro: Manifest = {"metadata": {}, "lastTimestamp": None, "eventTime": "2026-01-01T00:00:05.734512Z"}
    later: Manifest = {"metadata": {}, "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:06.000001Z"}}
    unknown: Manifest = {"metadata": {}}
    assert sorted([later, micro, whole, unknown], key=last_seen) == [unknown, whole, micro, later]
