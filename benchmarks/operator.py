"""The operator in figures: `python -m benchmarks.operator`, `QUICK=1` for short.

Two operators run side by side in a cluster of the benchmark's own, one with 1 service and one with 50, whose replicas
are stand-ins (`standin_replicas`). Then, on the full embedded cluster, one real service: from `kubectl apply` to its
first token, and what the installed operator writes while a real load lasts (`first_token`).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from benchmarks import first_token
from benchmarks.figures import ROOT, Figures, quick
from benchmarks.operator_process import OperatorProcess, operator_process
from benchmarks.own_cluster import Services, own_cluster
from benchmarks.standin_replicas import Replicas, standin_replicas
from benchmarks.waiting import LONG, until
from llmservice.kube.real import RealKube
from llmservice.signals.watch import INTERVAL

EXAMPLE: Final = (ROOT / "examples" / "smollm2.yaml").read_text(encoding="utf-8")
COUNTS: Final = (1, 50)
RSS_GOAL: Final = {1: 150, 50: 180}
QUIET: Final = INTERVAL + 6
"""The rates of a service are first told at the second look at it: only after that is it at rest."""


@dataclass(frozen=True)
class Windows:
    """Seconds of each part. The operator's resync falls into the window at rest."""

    idle: float
    loaded: float
    resync: float


@dataclass(frozen=True)
class Subject:
    """An operator and its services."""

    count: int
    services: Services
    operator: OperatorProcess

    def called(self, name: str) -> str:
        """The name of a figure of this subject."""
        return f"{name}_{self.count}_service{'s' if self.count > 1 else ''}"


def windows() -> Windows:
    """Short ones still hold a resync and two looks at every service; long ones hold the resync as it is by default."""
    return (
        Windows(idle=45, loaded=2 * INTERVAL, resync=40)
        if quick()
        else Windows(idle=330, loaded=10 * INTERVAL, resync=300)
    )


async def measure(figures: Figures, lengths: Windows) -> None:
    """Everything that needs no node."""
    async with AsyncExitStack() as stack:
        kubeconfig, client = await stack.enter_async_context(own_cluster())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        subjects = [await subject(stack, kubeconfig, client, folder, count, lengths) for count in COUNTS]
        namespaces = [one.services.namespace for one in subjects]
        replicas = await stack.enter_async_context(standin_replicas(client, *namespaces, most=sum(COUNTS)))
        for one in subjects:
            await reconcile(one, figures)
        await asyncio.gather(*(at_rest(one) for one in subjects))
        await asyncio.gather(*(idle(one, figures, lengths.idle) for one in subjects))
        await loaded(subjects, replicas, figures, lengths.loaded)


async def subject(
    stack: AsyncExitStack, kubeconfig: Path, client: RealKube, folder: Path, count: int, lengths: Windows
) -> Subject:
    """An operator that leads, without services yet."""
    namespace = f"bench-{count}"
    services = Services(client, namespace, tuple(f"chat-{number}" for number in range(count)))
    await services.make_namespace()
    operator = await stack.enter_async_context(operator_process(kubeconfig, folder, namespace, lengths.resync))
    await until(operator.leads, "the operator leads")
    return Subject(count, services, operator)


async def reconcile(subject: Subject, figures: Figures) -> None:
    """From apply until everything is applied and told, and until every service serves."""
    begun = time.monotonic()
    await subject.services.apply(yaml.safe_load(EXAMPLE))
    await until(subject.services.are_deployed, "every service has its children")
    figures.add(subject.called("reconciled_seconds"), time.monotonic() - begun, "s")
    await until(lambda: subject.services.are("Ready", "Serving"), "every service serves")
    figures.add(subject.called("serving_seconds"), time.monotonic() - begun, "s")


async def at_rest(subject: Subject) -> None:
    """Returns when the services are settled and nothing was written for a while."""
    await until(lambda: subject.services.are("Progressing", "Settled"), "every service is settled")
    deadline = time.monotonic() + LONG
    last, since = await subject.operator.writes(), time.monotonic()
    while time.monotonic() - since < QUIET:
        await asyncio.sleep(1)
        now = await subject.operator.writes()
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() > deadline:
            print(f"the operator of {subject.count} services did not come to rest within {LONG:.0f} s")
            return


async def idle(subject: Subject, figures: Figures, seconds: float) -> None:
    """What is written to a world that does not change, by the operator's own count and by the stored versions."""
    writes, versions = await subject.operator.writes(), await subject.services.versions()
    await asyncio.sleep(seconds)
    figures.add(subject.called("idle_writes"), await subject.operator.writes() - writes, "writes", 0)
    now = await subject.services.versions()
    changed = sorted(name for name in versions.keys() | now.keys() if versions.get(name) != now.get(name))
    figures.add(subject.called("idle_objects_changed"), len(changed), "objects", 0)
    if changed:
        print("changed at rest:", *changed[:5])
    figures.add(subject.called("operator_rss"), subject.operator.rss(), "MB", RSS_GOAL[subject.count])


async def loaded(subjects: list[Subject], replicas: Replicas, figures: Figures, seconds: float) -> None:
    """What is written when every figure of every service changes all the time."""
    before = [await one.operator.writes() for one in subjects]
    replicas.loaded = True
    await asyncio.sleep(seconds)
    for one, writes in zip(subjects, before, strict=True):
        rate = (await one.operator.writes() - writes) / one.count / (seconds / 60)
        figures.add(one.called("loaded_writes_each"), rate, "writes/minute", 2)
        figures.add(one.called("operator_rss_loaded"), one.operator.rss(), "MB")
    replicas.loaded = False


def main() -> None:
    """Entry point."""
    figures = Figures("operator")
    try:
        asyncio.run(measure(figures, windows()))
        first_token.measure(figures)
    finally:
        print(f"written to {figures.write()}")


if __name__ == "__main__":
    main()
