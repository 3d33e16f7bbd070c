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
from benchmarks.operator_process import OperatorProcess, operator_process
from benchmarks.own_cluster import USER, own_cluster
from benchmarks.placement_judge import Verdict, judge
from benchmarks.placement_world import POOLS, World
from benchmarks.waiting import until
from llmservice.kube.errors import Unavailable

NAMESPACE: Final = "bench-placement"
SECONDS: Final = 3600.0
"""Patience, not a goal: on a machine that does other things as well it takes long."""
LEASE_SECONDS: Final = 120.0
POLL_SECONDS: Final = 5.0
"""The judge lists everything; looking more often would take the processor from what it judges."""


async def measure(figures: Figures) -> None:
    """Builds the world, lets the operator and the scheduler at it, and judges until all is said."""
    async with own_cluster() as (kubeconfig, client):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await client.apply(namespace, field_manager=USER)
            world = World(client, NAMESPACE, "bench")
            await world.build()
            fleet = json.dumps(world.fleet())
            process = operator_process(kubeconfig, Path(folder), NAMESPACE, 300.0, fleet, LEASE_SECONDS)
            async with process as operator:
                await until(operator.leads, "the operator leads")
                await watch(world, figures, operator)


async def watch(world: World, figures: Figures, operator: OperatorProcess) -> None:
    """From applying the services to the last word on them."""
    begun, used = time.monotonic(), operator.processor_seconds()
    await world.apply_services()
    last, decided = Verdict(), 0.0

    async def said() -> bool:
        nonlocal last, decided
        operator.processor_seconds()  # raises where it has ended: nothing more would be told
        try:
            last = await judge(world)
        except Unavailable:  # an API server without a processor is looked at again
            return False
        if not decided and last.pods and not last.undecided:
            decided = time.monotonic() - begun
        return last.done

    try:
        await until(said, "every replica has a node, or its shortage is told", SECONDS, POLL_SECONDS)
    except TimeoutError as error:
        print(error, *last.wrong[:5], *last.untold[:5], sep="\n")
    report(world, figures, last, decided, time.monotonic() - begun)
    figures.add(
        "operator_processor_seconds_per_service", (operator.processor_seconds() - used) / len(world.shapes), "s"
    )


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
