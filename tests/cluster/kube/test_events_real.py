"""Events as a real API server keeps them."""

from __future__ import annotations

import pytest

from llmservice.kube.events import EventType, Recorder
from llmservice.kube.real import RealKube
from llmservice.kube.resources import EVENT
from tests.kube_contract.manifests import config_map

pytestmark = pytest.mark.cluster


async def test_an_event_is_found_by_its_object_and_counted(client: RealKube, namespace: str) -> None:
    about = await client.apply(config_map(namespace))
    recorder = Recorder(client, "operator-0")
    for _ in range(2):
        assert await recorder.record(about, reason="ModelLoadFailed", message="ü" * 2000, kind=EventType.WARNING)
    selector = f"involvedObject.uid={about['metadata']['uid']}"
    (event,) = await client.list(EVENT, namespace, field_selector=selector)
    assert (event["count"], event["type"], event["reason"]) == (2, "Warning", "ModelLoadFailed")
    assert event["source"]["component"] == "triton-llm-operator"
