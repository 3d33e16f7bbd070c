"""An idle world is left alone, and any difference that is ours is seen."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmservice.api.quantity import parse_quantity
from llmservice.kube.differs import (
    APPLIED_ANNOTATION,
    differing,
    needs_apply,
    stamp,
)
from llmservice.kube.fake import FakeKube
from llmservice.kube.fields import paths_of, remove, value_at
from llmservice.kube.resources import DEPLOYMENT, Manifest

pytestmark = pytest.mark.unit

NAMES = st.sampled_from(["a", "b", "c", "image", "model"])
TEXTS = st.sampled_from(["x", "y", "5ms", "triton:1"])
ITEMS = st.lists(
    st.fixed_dictionaries({"name": NAMES, "value": TEXTS}), max_size=3, unique_by=lambda item: item["name"]
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "image": TEXTS},
        optional={"env": ITEMS, "args": st.lists(TEXTS, max_size=3), "stdin": st.booleans(), "workingDir": TEXTS},
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda item: item["name"],
)
MANIFESTS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("apps/v1"),
        "kind": st.just("Deployment"),
        "metadata": st.fixed_dictionaries(
            {"name": st.just("chat"), "namespace": st.just("default")},
            optional={"labels": st.dictionaries(NAMES, TEXTS), "annotations": st.dictionaries(NAMES, TEXTS)},
        ),
        "spec": st.fixed_dictionaries(
            {
                "replicas": st.integers(0, 3),
                "template": st.fixed_dictionaries({"spec": st.fixed_dictionaries({"containers": CONTAINERS})}),
            }
        ),
    }
)


def as_stored(value: Any) -> Any:
    """What an API server makes of a manifest: defaults added, empty and zero things dropped, list-map items kept."""
    if isinstance(value, dict):
        kept = {name: as_stored(child) for name, child in value.items() if child not in ({}, [], None, False, "")}
        return {**kept, "aDefault": "filled in"}
    if isinstance(value, list):
        return [as_stored(item) for item in value]
    return value


@settings(deadline=None)
@given(MANIFESTS)
def test_what_was_applied_needs_no_apply(desired: Manifest) -> None:
    assert not needs_apply(desired, as_stored(stamp(desired)))
    assert not needs_apply(stamp(desired), as_stored(stamp(desired)))


@settings(deadline=None)
@given(MANIFESTS, st.data())
def test_any_change_of_a_leaf_by_another_is_seen(desired: Manifest, data: st.DataObject) -> None:
    live = stamp(desired)
    path = data.draw(st.sampled_from([path for path in paths_of(live) if path[-1].startswith("f:")]))
    holder = value_at(live, path[:-1])
    holder[path[-1].removeprefix("f:")] = ["tampered"]
    assert needs_apply(desired, live)


@settings(deadline=None)
@given(MANIFESTS, st.data())
def test_a_field_that_is_no_longer_desired_is_seen(desired: Manifest, data: st.DataObject) -> None:
    live = stamp(desired)
    without = copy.deepcopy(desired)
    remove(without, data.draw(st.sampled_from([p for p in paths_of(desired) if p[0] == "f:spec"])))
    without.setdefault("spec", {})
    assert needs_apply(without, live)


@settings(deadline=None)
@given(MANIFESTS)
def test_the_stamp_does_not_stamp_itself_and_leaves_its_input_alone(desired: Manifest) -> None:
    before = copy.deepcopy(desired)
    assert stamp(stamp(desired)) == stamp(desired)
    assert desired == before


@settings(deadline=None)
@given(MANIFESTS)
async def test_the_second_pass_over_a_world_writes_nothing(desired: Manifest) -> None:
    client = FakeKube()
    await client.apply(stamp(desired))
    await client.apply({**desired, "spec": {"paused": True}}, field_manager="other")
    assert not needs_apply(desired, client.peek(DEPLOYMENT, "default", "chat"))


def live_with(spec: Manifest) -> Manifest:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"}, "spec": spec}


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"resources": {"limits": {"cpu": "1000m"}}}, {"resources": {"limits": {"cpu": "1"}}}),
        ({"resources": {"limits": {"cpu": 2}}}, {"resources": {"limits": {"cpu": "2"}}}),
        ({"resources": {"requests": {"memory": "1.5Gi"}}}, {"resources": {"requests": {"memory": "1536Mi"}}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        ({"ports": [{"port": 80}]}, {"ports": [{"port": 80, "protocol": "TCP"}]}),
        ({"hostNetwork": False}, {}),
        ({"minReadySeconds": 0}, {}),
        ({"nodeSelector": {}}, {}),
        ({"tolerations": []}, {}),
        ({"name": ""}, {}),
        ({"strategy": None}, {"strategy": {"type": "RollingUpdate"}}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"volumes": [{"name": "a"}, {"name": "b"}]}, {"volumes": [{"name": "b"}, {"name": "x"}, {"name": "a"}]}),
    ],
)
def test_what_kubernetes_calls_equal_is_equal(desired: Manifest, live: Manifest) -> None:
    assert differing(live_with(desired), live_with(live)) == []


def labelled(**labels: str) -> Manifest:
    return {"template": {"metadata": {"labels": labels}}}


def limited(cpu: str) -> Manifest:
    return {"resources": {"limits": {"cpu": cpu}}}


@pytest.mark.parametrize(
    ("desired", "live", "where"),
    [
        (limited("1000m"), limited("2"), "spec.resources.limits.cpu"),
        (labelled(memory="1Gi"), labelled(memory="1024Mi"), "spec.template.metadata.labels.memory"),
        ({"targetPort": 80}, {"targetPort": "80"}, "spec.targetPort"),
        ({"hostNetwork": True}, {}, "spec.hostNetwork"),
        ({"replicas": 0}, {"replicas": 1}, "spec.replicas"),
        ({"emptyDir": {}}, {"hostPath": {"path": "/"}}, "spec.emptyDir"),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}, "spec.args[0]"),
        ({"args": ["a"]}, {"args": ["a", "b"]}, "spec.args"),
        ({"volumes": [{"name": "a"}]}, {"volumes": [{"name": "b"}]}, "spec.volumes[a]"),
    ],
)
def test_what_differs_is_named(desired: Manifest, live: Manifest, where: str) -> None:
    assert differing(live_with(desired), live_with(live))[0] == where


def test_data_that_looks_like_a_quantity_is_text() -> None:
    def settings(size: str) -> Manifest:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"storage": size}}

    assert differing(settings("1Gi"), settings("1024Mi")) == ["data.storage"]


def test_nothing_there_needs_apply_and_so_does_an_object_without_our_stamp() -> None:
    desired = live_with({"replicas": 1})
    assert needs_apply(desired, None)
    assert needs_apply(desired, desired)


def test_the_stamp_is_one_annotation_beside_the_others() -> None:
    desired = {**live_with({}), "metadata": {"name": "chat", "annotations": {"a": "b"}}}
    annotations = stamp(desired)["metadata"]["annotations"]
    assert set(annotations) == {"a", APPLIED_ANNOTATION}
    assert len(annotations[APPLIED_ANNOTATION]) == 16


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", "0.5"), ("1Gi", str(2**30)), ("1e3", "1000"), ("2", "2"), ("1.5k", "1500"), ("-1", "-1")],
)
def test_quantities_are_numbers(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "fast", "1Zi", "NaN", "Infinity", None])
def test_other_text_is_no_quantity(text: object) -> None:
    assert parse_quantity(text) is None
