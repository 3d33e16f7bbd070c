"""A hundred services over fifty simulated nodes: `python -m benchmarks.placement`.

In a cluster of the benchmark's own, with the real scheduler: how many replicas are where they belong, how many
shortages are told in exactly the right numbers, and how long each takes.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.figures import Figures
from benchmarks.operator_process import operator_process
from benchmarks.own_cluster import USER, own_cluster
from benchmarks.placement_world import POOLS, Verdict, World, judge
from benchmarks.waiting import until

NAMESPACE: Final = "bench-placement"
SECONDS: Final = 600.0


async def measure(figures: Figures) -> None:
    """Builds the world, lets the operator and the scheduler at it, and judges until all is said."""
    async with own_cluster() as (kubeconfig, client):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await client.apply(namespace, field_manager=USER)
            world = World(client, NAMESPACE, "bench")
            await world.build()
            fleet = json.dumps(world.fleet())
            async with operator_process(kubeconfig, Path(folder), NAMESPACE, 300.0, fleet) as operator:
                await until(operator.leads, "the operator leads")
                await watch(world, figures)


async def watch(world: World, figures: Figures) -> None:
    """From applying the services to the last word on them."""
    begun = time.monotonic()
    await world.apply_services()
    last, decided = Verdict(), 0.0

    async def said() -> bool:
        nonlocal last, decided
        last = await judge(world)
        if not decided and last.pods and not last.undecided:
            decided = time.monotonic() - begun
        return last.done

    try:
        await until(said, "every replica has a node, or its shortage is told", SECONDS, poll=1)
    except TimeoutError as error:
        print(error, *last.wrong[:5], *last.untold[:5], sep="\n")
    report(world, figures, last, decided, time.monotonic() - begun)


def report(world: World, figures: Figures, last: Verdict, decided: float, told: float) -> None:
    """The figures. Without a goal: what was asked for, and how long it took."""
    nodes = sum(pool.nodes for pool in POOLS)
    figures.add("services", len(world.shapes), "services")
    figures.add("nodes", nodes, "nodes")
    figures.add("replicas", last.pods, "replicas")
    figures.add("placed", last.placed, "replicas")
    figures.add("placed_wrongly", len(last.wrong) + last.undecided, "replicas", 0)
    figures.add("services_short", last.short, "services")
    figures.add("shortages_named_exactly", last.told, "services", last.short, "higher")
    figures.add("shortages_named_wrongly", len(last.untold), "services", 0)
    figures.add("seconds_to_place", decided, "s")
    figures.add("seconds_to_tell", told, "s")


def main() -> None:
    """Entry point."""
    figures = Figures("placement")
    try:
        asyncio.run(measure(figures))
    finally:
        print(f"written to {figures.write()}")


if __name__ == "__main__":
    main()
