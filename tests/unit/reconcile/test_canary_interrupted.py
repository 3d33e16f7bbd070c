"""A trial on one pod while processes die and calls fail: in the end all pods run one set of knobs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from llmservice.kube.errors import Unavailable
from llmservice.tuning.measured import UnderWay
from tests.unit.reconcile.tried_cluster import FAST, PODS, SLOW, SPEC, Death, TriedCluster

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("misses_are_known")]


async def life(tried: TriedCluster) -> None:
    """A canary from its first window to the last pod that follows."""
    await tried.survive()
    for _ in range(10):
        tried.window(FAST)
        await tried.survive()


@cache
def undisturbed() -> tuple[tuple[int, ...], int, int]:
    """Which API calls write once a canary is in the memory, how many calls change pods, and the delay in the end."""
    tried = TriedCluster()
    asyncio.run(life(tried))
    writes = [(number, call) for number, call in enumerate(tried.kube.journal.calls, 1) if call.writes]
    first, second = (number for number, call in writes[:13] if call.name == "chat-tuning")
    assert first < second, "the first is of what was learnt before anything was tried"
    (delay,) = set(tried.delays().values())
    return tuple(number for number, _ in writes if number >= second), tried.triton.calls, delay


WRITES = 11
"""Writes of the undisturbed life from a canary's beginning on; the test below holds this number to the truth."""


def test_the_undisturbed_life_changes_each_pod_once() -> None:
    writes, *rest = undisturbed()
    assert len(writes) == WRITES
    assert rest == [PODS, 22000]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", range(1, PODS + 1))
def test_a_process_may_die_at_any_change_of_a_pod(call: int, after: bool) -> None:
    tried = TriedCluster()
    tried.triton.deadly, tried.triton.after = call, after
    asyncio.run(life(tried))
    asyncio.run(tried.settle())
    tried.assert_all_alike_in_knobs(22000)
    assert set(tried.triton.changed.values()) == {1}, "neither forgotten nor done twice"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("place", range(WRITES))
def test_a_process_may_die_at_any_write_once_there_is_a_canary(place: int, after: bool) -> None:
    tried = TriedCluster()
    tried.kube.fail(Death(), nth=undisturbed()[0][place], after_write=after)
    asyncio.run(life(tried))
    asyncio.run(tried.settle())
    tried.assert_all_alike()


def edit(tried: TriedCluster, dice: random.Random) -> None:
    edits: list[dict[str, Any]] = [
        {"drain": {"timeout": f"{dice.randint(100, 300)}s"}},
        {"batching": {**SPEC["batching"], "maxQueueDelay": f"{dice.randint(0, 9)}ms"}},
        {"replicas": dice.randint(1, 6)},
        {"tuning": {"mode": dice.choice(["Auto", "Observe", "Off"])}},
        {"engine": {"image": f"registry.example/triton:{dice.randint(1, 3)}"}},
        {},
    ]
    tried.user_applies({**SPEC, **dice.choice(edits)})


def die_at_a_pod(tried: TriedCluster, dice: random.Random) -> None:
    tried.triton.deadly, tried.triton.after = tried.triton.calls + dice.randint(1, 4), dice.random() < 0.5


def fail_a_call(tried: TriedCluster, dice: random.Random) -> None:
    error = dice.choice([Death(), Unavailable("no answer", status=503)])
    tried.kube.fail(error, nth=dice.randint(1, 60), after_write=dice.random() < 0.5)


def refuse(tried: TriedCluster, dice: random.Random) -> None:
    tried.triton.refuses = dice.choice([*tried.pods(), ""])


Misfortune = Callable[[TriedCluster, random.Random], object]


MISFORTUNES: Sequence[Misfortune] = (
    *[lambda tried, _: tried.window(FAST)] * 4,
    lambda tried, dice: tried.window(dice.choice([FAST, SLOW, None])),
    lambda tried, dice: tried.window(FAST, (dice.choice(list(UnderWay)),)),
    lambda tried, _: tried.blind_window(),
    lambda tried, dice: tried.kill(dice.choice(tried.pods())) if tried.pods() else None,
    lambda tried, _: tried.restart(),
    lambda tried, _: tried.controllers_act(),
    edit,
    die_at_a_pod,
    fail_a_call,
    refuse,
)
"""What may happen between two passes."""


async def misfortune(tried: TriedCluster, dice: random.Random) -> None:
    dice.choice(MISFORTUNES)(tried, dice)
    try:
        await tried.reconcile()
    except (Death, Unavailable):
        tried.restart()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_all_pods_end_on_one_set_of_knobs(seed: int) -> None:
    dice = random.Random(seed)
    tried = TriedCluster()

    async def lives() -> None:
        await tried.survive()
        for _ in range(6):
            tried.window(FAST)
            await tried.survive()
        for _ in range(30):
            await misfortune(tried, dice)
        tried.user_applies(SPEC)
        tried.triton.refuses, tried.triton.deadly = "", 0
        tried.kube.journal.faults.clear()
        tried.restart()
        await tried.survive()
        await tried.settle(dice.choice([FAST, SLOW, None]))

    asyncio.run(lives())
    tried.assert_all_alike()
