"""Of several processes one leads, and no two believe to lead at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from llmservice.kube.clock import Clock
from llmservice.kube.errors import Unavailable
from llmservice.kube.fake import FakeKube
from llmservice.kube.faults import Call
from llmservice.kube.lease import Elector, LeaseTimes
from llmservice.kube.resources import LEASE, Manifest
from tests.unit.kube.clocks import ManualClock, OtherMachine, settle

pytestmark = pytest.mark.unit


def elector(client: FakeKube, clock: Clock, identity: str = "a") -> Elector:
    return Elector(client, namespace="default", name="operator", identity=identity, clock=clock)


@asynccontextmanager
async def running(*electors: Elector) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = []
    for each in electors:
        tasks.append(asyncio.create_task(each.run()))
        await settle()
    yield tasks
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def lease_of(client: FakeKube) -> Manifest:
    spec: Manifest = client.peek(LEASE, "default", "operator")["spec"]
    return spec


async def test_the_first_candidate_leads_at_once_and_the_lease_says_so() -> None:
    client, clock = FakeKube(), ManualClock()
    first = elector(client, clock)
    async with running(first):
        assert first.is_leader
        assert first.leading.is_set()
        assert lease_of(client) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }


async def test_a_leader_renews_and_a_follower_waits() -> None:
    client, clock = FakeKube(), ManualClock()
    first, second = elector(client, clock), elector(client, clock, "b")
    async with running(first, second):
        await clock.advance(300)
        assert first.is_leader
        assert not second.is_leader
        assert second.leader == "a"
        assert lease_of(client)["renewTime"] == "2026-01-01T00:05:00.000000Z"
        assert lease_of(client)["acquireTime"] == "2026-01-01T00:00:00.000000Z"


async def test_a_follower_takes_over_a_lease_duration_after_the_last_renewal_it_saw() -> None:
    client, clock = FakeKube(), ManualClock()
    first = elector(client, clock)
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2031-01-01T00:00:00.000000Z"}
    metadata = {"name": "operator", "namespace": "default"}
    client.put({"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec})
    async with running(first):
        await clock.advance(14.9)
        assert not first.is_leader
        await clock.advance(2)
        assert first.is_leader
        assert lease_of(client)["leaseTransitions"] == 1


@pytest.mark.parametrize("skew", [timedelta(hours=-3), timedelta(hours=3)])
async def test_the_wall_clocks_of_other_machines_mean_nothing(skew: timedelta) -> None:
    client, clock = FakeKube(), ManualClock()
    first, second = elector(client, clock), elector(client, OtherMachine(clock, skew), "b")
    async with running(first, second):
        await clock.advance(120)
        assert first.is_leader
        assert not second.is_leader


async def test_a_leader_without_an_api_server_stops_before_another_may_start() -> None:
    client, clock = FakeKube(), ManualClock()
    first = elector(client, clock)
    async with running(first) as (task,):
        await clock.advance(4)
        client.fail(Unavailable("connection refused"), times=1000)
        await clock.advance(9.9)
        assert first.is_leader
        await clock.advance(0.2)
        assert not first.is_leader
        await clock.advance(2)
        assert task.done()
        assert not first.leading.is_set()
        assert clock.elapsed < 4 + 15


async def test_a_short_outage_is_survived() -> None:
    client, clock = FakeKube(), ManualClock()
    first, second = elector(client, clock), elector(client, clock, "b")
    async with running(first, second):
        client.fail(Unavailable("connection refused"), times=6)
        await clock.advance(60)
        assert first.is_leader
        assert lease_of(client)["leaseTransitions"] == 0


async def test_a_renewal_whose_answer_is_lost_costs_nothing() -> None:
    client, clock = FakeKube(), ManualClock()
    first = elector(client, clock)
    async with running(first):
        client.fail(Unavailable("reset"), verb="replace", after_write=True)
        await clock.advance(5)
        assert first.is_leader


async def test_of_two_takers_one_wins() -> None:
    client, clock = FakeKube(), ManualClock()
    first, second = elector(client, clock), elector(client, clock, "b")
    barrier = asyncio.Barrier(2)

    async def both_have_read(call: Call) -> None:
        if call.verb in ("create", "replace"):
            await barrier.wait()
            client.before = None

    client.before = both_have_read
    tasks = [asyncio.create_task(first.run()), asyncio.create_task(second.run())]
    await settle()
    assert sorted([first.is_leader, second.is_leader]) == [False, True]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_shutdown_hands_over_at_the_next_try_of_the_other() -> None:
    client, clock = FakeKube(), ManualClock()
    first, second = elector(client, clock), elector(client, clock, "b")
    async with running(second) as (task,), running(first):
        await clock.advance(10)
        assert second.is_leader
        task.cancel()
        await settle()
        assert not second.is_leader
        assert lease_of(client)["holderIdentity"] == ""
        await clock.advance(2)
        assert first.is_leader


async def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    client, clock = FakeKube(), ManualClock()
    first = elector(client, clock)
    async with running(first) as (task,):
        client.change(LEASE, "default", "operator", lambda lease: lease["spec"].update(holderIdentity="usurper"))
        await clock.advance(2)
        assert task.done()
        assert not first.is_leader
        await first.release()
        assert lease_of(client)["holderIdentity"] == "usurper"


async def test_a_deleted_lease_is_made_again() -> None:
    client, clock = FakeKube(), ManualClock()
    first = elector(client, clock)
    async with running(first):
        await client.delete(LEASE, "default", "operator")
        await clock.advance(2)
        assert first.is_leader
        assert lease_of(client)["holderIdentity"] == "a"


async def test_never_two_leaders_whatever_fails() -> None:
    client, clock = FakeKube(), ManualClock()
    electors = [elector(client, OtherMachine(clock, timedelta(minutes=n)), name) for n, name in enumerate("abc")]
    for nth in range(5, 400, 7):
        client.fail(Unavailable("reset"), nth=nth, times=nth % 5, after_write=bool(nth % 2))
    async with running(*electors):
        for _ in range(600):
            await clock.advance(0.5)
            assert sum(each.is_leader for each in electors) <= 1


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_times_that_cannot_work_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="write a lease duration longer"):
        LeaseTimes(*times)
