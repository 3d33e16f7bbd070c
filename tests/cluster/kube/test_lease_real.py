"""Leadership on a real API server: one leads, the other takes over, by handover and after a death."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from llmservice.kube.lease import Elector, LeaseTimes
from llmservice.kube.real import RealKube
from llmservice.kube.resources import LEASE
from tests.kube_contract.manifests import eventually

pytestmark = pytest.mark.cluster

TIMES = LeaseTimes(duration=8.0, renew_deadline=6.0, retry_period=0.2)


def elector(client: RealKube, namespace: str, identity: str) -> Elector:
    return Elector(client, namespace=namespace, name="operator", identity=identity, times=TIMES)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_take_over_at_once_after_a_handover(client: RealKube, namespace: str) -> None:
    first, second = elector(client, namespace, "a"), elector(client, namespace, "b")
    task = asyncio.create_task(first.run())
    await asyncio.wait_for(first.leading.wait(), 60)
    other = asyncio.create_task(second.run())

    async def seen() -> bool:
        return second.leader == "a"

    await eventually(seen)
    started = asyncio.get_running_loop().time()
    await stop(task)
    await asyncio.wait_for(second.leading.wait(), 60)
    assert asyncio.get_running_loop().time() - started < TIMES.duration
    assert not first.is_leader
    lease = await client.get(LEASE, namespace, "operator")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "b"
    assert lease["spec"]["leaseTransitions"] == 1
    await stop(other)


async def test_take_over_after_a_death(client: RealKube, namespace: str) -> None:
    first, second = elector(client, namespace, "a"), elector(client, namespace, "b")
    task = asyncio.create_task(first.run())
    await asyncio.wait_for(first.leading.wait(), 60)
    lease = await client.get(LEASE, namespace, "operator")
    await stop(task)
    assert lease is not None
    freed = await client.get(LEASE, namespace, "operator")
    assert freed is not None
    await client.replace({**freed, "spec": lease["spec"]})  # as a process that is killed leaves it
    other = asyncio.create_task(second.run())
    started = asyncio.get_running_loop().time()
    await asyncio.wait_for(second.leading.wait(), 60)
    assert asyncio.get_running_loop().time() - started >= TIMES.duration
    await stop(other)
