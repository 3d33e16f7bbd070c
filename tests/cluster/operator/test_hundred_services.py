"""A hundred services of mixed shapes over fifty simulated nodes: each is placed, or told exactly what is missing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from benchmarks.placement_judge import judge
from benchmarks.placement_world import World, shapes
from benchmarks.waiting import until
from llmservice.kube.real import connect
from tests.cluster.operator.conftest import Start
from tests.cluster.operator.operator_process import eventually

pytestmark = pytest.mark.cluster


@pytest_asyncio.fixture
async def world(kubeconfig: Path, namespace: str) -> AsyncIterator[World]:
    client = await connect(kubeconfig)
    built = World(client, namespace, f"p{uuid4().hex[:6]}")
    await built.build()
    yield built
    await built.tear_down()
    await client.close()


async def test_a_hundred_services_are_placed_or_told_what_is_missing(start: Start, world: World) -> None:
    assert len(shapes()) == 100
    operator = start("a", fleet=json.dumps(world.fleet()), lease_seconds=60)
    eventually(operator.is_ready, "the operator is ready", 180)
    await world.apply_services()
    last = await judge(world)

    async def all_is_well() -> bool:
        nonlocal last
        last = await judge(world)
        return last.done

    try:
        await until(all_is_well, "every replica has a node, or its shortage is told", 480, poll=2)
    except TimeoutError:
        pytest.fail(f"{last.undecided} undecided; wrong: {last.wrong[:3]}; untold: {last.untold[:3]}")
    assert last.told >= 5, "how many are short depends on who is placed first, but more is asked for than there is"
