"""A process may die, and a call may fail, anywhere: a later pass ends in the same place."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest

from llmservice.kube import resources
from llmservice.kube.errors import Conflict, KubeError, TooManyRequests, Unavailable
from llmservice.kube.faults import Call
from tests.unit.reconcile.small_cluster import KEY, SmallCluster

pytestmark = pytest.mark.unit

OTHER_IMAGE: dict[str, Any] = {"engine": {"image": "registry.example/triton:2"}}


class Death(Exception):  # noqa: N818 - it is no error of the program
    """The process is gone at once: nothing in it can catch this."""


async def history(cluster: SmallCluster, step: Callable[[], Awaitable[object]]) -> None:
    """A life of a service: made, then its revision replaced and a knob moved; `step` runs until the world is quiet."""
    cluster.user_applies()
    await step()
    cluster.user_applies({**OTHER_IMAGE, "batching": {"maxQueueDelay": "9ms"}})
    await step()


@dataclass(frozen=True)
class Reference:
    """The undisturbed life: what it ends in, and which of its API calls may change the world."""

    picture: dict[str, Any]
    writes: tuple[int, ...]


@cache
def reference() -> Reference:
    async def live() -> Reference:
        cluster = SmallCluster()
        await history(cluster, cluster.converge)
        writes = tuple(number for number, call in enumerate(cluster.kube.journal.calls, 1) if call.writes)
        return Reference(cluster.picture(), writes)

    return asyncio.run(live())


async def survive(cluster: SmallCluster) -> None:
    """Converges, with a new process wherever one died."""
    for _ in range(60):
        before = len(cluster.kube.journal.writes())
        try:
            await cluster.reconcile()
        except (Death, KubeError):
            cluster.restart()
            continue
        if not cluster.controllers_act() and len(cluster.kube.journal.writes()) == before:
            return
    raise AssertionError("does not come to rest")


WRITES = 21
"""Writes of the undisturbed life; the test below holds this number to the truth."""


def test_every_write_is_a_crash_point() -> None:
    assert len(reference().writes) == WRITES


@pytest.mark.parametrize("after_write", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(WRITES))
def test_a_process_may_die_at_any_write_and_another_ends_in_the_same_place(write: int, after_write: bool) -> None:
    cluster = SmallCluster()
    cluster.kube.fail(Death(), nth=reference().writes[write], after_write=after_write)
    asyncio.run(history(cluster, partial(survive, cluster)))
    assert cluster.picture() == reference().picture


@pytest.mark.parametrize("read", range(1, 50, 3))
def test_a_process_may_die_at_a_read_as_well(read: int) -> None:
    cluster = SmallCluster()
    cluster.kube.fail(Death(), nth=read)
    asyncio.run(history(cluster, partial(survive, cluster)))
    assert cluster.picture() == reference().picture


@pytest.mark.parametrize(
    "error",
    [
        Conflict("the object has been modified", status=409, reason="Conflict"),
        Unavailable("no answer", status=503),
        TooManyRequests("slow down"),
    ],
    ids=["conflicts", "an API server that is away", "throttling"],
)
def test_a_storm_of_errors_passes(error: KubeError) -> None:
    expected = reference().picture
    cluster = SmallCluster()
    dice = random.Random(7)

    async def half_of_the_writes_fail(call: Call) -> None:
        if call.writes and dice.random() < 0.5:
            raise error

    cluster.kube.before = half_of_the_writes_fail

    async def step() -> None:
        for _ in range(200):
            try:
                await cluster.reconcile()
            except KubeError:
                continue
            if not cluster.controllers_act() and not await quiet(cluster):
                return
        raise AssertionError("does not come to rest")

    asyncio.run(history(cluster, step))
    assert cluster.picture() == expected


async def quiet(cluster: SmallCluster) -> bool:
    """Whether a pass still wants to write, asked without letting anything fail."""
    kept, cluster.kube.before = cluster.kube.before, None
    try:
        return bool(await cluster.writes_of_a_pass())
    finally:
        cluster.kube.before = kept


async def test_a_stale_look_deletes_nothing_and_brings_no_old_spec_back(cluster: SmallCluster) -> None:
    cluster.user_applies(replicas=2)
    await cluster.converge()
    with cluster.kube.stale_reads():
        cluster.user_applies(OTHER_IMAGE, replicas=2)
        before = len(cluster.kube.journal.calls)
        for _ in range(3):
            await cluster.reconcile()
        assert not [call for call in cluster.kube.journal.calls[before:] if call.verb == "delete"]
    await cluster.converge()
    with cluster.kube.stale_reads():
        cluster.user_applies(replicas=1)
        await cluster.reconcile()
    await cluster.converge()
    seen = cluster.service()["metadata"]["generation"]
    cluster.loop._seen[KEY] = (cluster.service()["metadata"]["uid"], seen + 1, frozenset())
    assert await cluster.writes_of_a_pass() == []
    assert cluster.kube.names(resources.DEPLOYMENT, KEY[0]) != []


async def test_an_object_made_again_under_the_name_of_a_child_is_not_deleted(cluster: SmallCluster) -> None:
    """A removal names the uid that was seen, so an object that took the place meanwhile stays."""
    cluster.user_applies()
    await cluster.converge()
    (old,) = cluster.kube.names(resources.DEPLOYMENT, KEY[0])
    cluster.user_applies(OTHER_IMAGE)

    async def replace_before_delete(call: Call) -> None:
        if call.verb == "delete" and call.resource == resources.DEPLOYMENT and call.name == old:
            cluster.kube.before = None
            stranger = cluster.kube.peek(resources.DEPLOYMENT, KEY[0], old)
            cluster.remove(resources.DEPLOYMENT, old)
            stranger["metadata"] = {"name": old, "namespace": KEY[0], "labels": {"app": "other"}}
            cluster.kube.put(stranger)

    cluster.kube.before = replace_before_delete
    await cluster.converge()
    assert old in cluster.kube.names(resources.DEPLOYMENT, KEY[0])
