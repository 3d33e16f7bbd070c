"""One real service on the full embedded cluster: from `kubectl apply` to its first token, and writes under real load.

The operator is installed by helm as `make demo` does it, the images are in the node before the clock starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.figures import ROOT, Figures, quick
from benchmarks.operator_process import count_writes, resident_megabytes
from benchmarks.waiting import LONG, until
from cluster import images, lifecycle, testing, values
from cluster.lifecycle import Tier
from cluster.settings import Settings, from_environment
from demo.load import Tally, run_load
from demo.steps import RELEASE, SYSTEM_NAMESPACE, install
from demo.terminal import Terminal
from llmservice.kube import resources
from llmservice.kube.real import RealKube, connect
from llmservice.kube.resources import Manifest
from llmservice.signals.watch import INTERVAL

NAME: Final = "smollm2"
EXAMPLE: Final = ROOT / "examples" / "smollm2.yaml"
NAMESPACE: Final = "bench-first-token"
GOAL: Final = 30
POLL: Final = 0.05
STREAMS: Final = (8, 2)
"""Streams of the load, in turn: the figures of the columns shall move."""
TURN: Final = 10.0
RSS_GOAL: Final = 150


def measure(figures: Figures) -> None:
    """Installs the operator, measures, and takes away what was not there before.

    Ends with an explanation where the cluster has services already: they would be counted, and disturbed.
    """
    settings = from_environment()
    was_up = lifecycle.is_up(settings, Tier.FULL)
    testing.ensure_up(settings, Tier.FULL)
    terminal = Terminal({"PATH": path(settings), "KUBECONFIG": str(settings.kubeconfig)})
    if found := terminal.ask("kubectl get llmservices -A -o name"):
        raise SystemExit(f"the cluster has services already ({len(found.split())}): delete them, or run `make down`")
    for image in images.IMAGES:
        images.load(settings, image)
    release = f"{RELEASE} -n {SYSTEM_NAMESPACE}"
    was_there = bool(terminal.ask(f"helm status {release}"))
    try:
        install(terminal, shlex.quote(str(values.write(settings))), take_ownership=True)
        asyncio.run(measure_service(terminal, settings.kubeconfig, figures))
    finally:
        if not was_there:
            terminal.run(f"helm uninstall {release} --ignore-not-found")
        if not was_up:
            lifecycle.down(settings)


def path(settings: Settings) -> str:
    """Where kubectl, helm and this environment's programs are found."""
    return f"{settings.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"


async def measure_service(terminal: Terminal, kubeconfig: Path, figures: Figures) -> None:
    """The figures, with the installed operator."""
    client = await connect(kubeconfig)
    try:
        seconds, phases = [], {}
        rounds = 1 if quick() else 3
        for number in range(rounds):
            async with namespace(client, f"{NAMESPACE}-{number}") as here:
                seconds.append(await first_token(terminal, client, here))
                phases = await startup_phases(client, here)
                if number == rounds - 1:
                    await loaded(client, here, figures)
        figures.add("first_token_seconds", statistics.median(seconds), "s", GOAL)
        figures.add("first_token_seconds_worst", max(seconds), "s")
        for name, part in phases.items():
            figures.add(f"first_token_{name}", part, "s")
        figures.add("first_token_rest", seconds[-1] - sum(phases.values()), "s")
    finally:
        await client.close()


@asynccontextmanager
async def namespace(client: RealKube, name: str) -> AsyncIterator[str]:
    """A fresh namespace, gone at the end.

    The service goes first: a namespace that still holds pods is looked at again only after half their grace period.
    """
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, field_manager="benchmark")
    try:
        yield name
    finally:
        await client.delete(resources.LLM_SERVICE, name, NAME)
        await until(lambda: empty(client, name), f"the pods of namespace {name} are gone")
        await client.delete(resources.NAMESPACE, None, name)


async def empty(client: RealKube, namespace: str) -> bool:
    """Whether the namespace has no pods."""
    return not await client.list(resources.POD, namespace)


async def first_token(terminal: Terminal, client: RealKube, namespace: str) -> float:
    """Seconds from the start of `kubectl apply` to the first token of a streamed answer through the Service."""
    begun = time.monotonic()
    await asyncio.to_thread(terminal.run, f"kubectl -n {namespace} apply -f {shlex.quote(str(EXAMPLE))}")
    url = f"{await service_url(client, namespace)}/v2/models/{NAME}/generate_stream"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        await until(lambda: answers(session, url), f"a token: kubectl -n {namespace} get llm,pods", poll=POLL)
    return time.monotonic() - begun


async def service_url(client: RealKube, namespace: str) -> str:
    """Where the Service listens; this host is the node, so its ClusterIP can be reached."""
    deadline = time.monotonic() + LONG
    while (service := await client.get(resources.SERVICE, namespace, NAME)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the Service of {namespace}/{NAME} was not made: is the operator running?")
        await asyncio.sleep(POLL)
    return f"http://{service['spec']['clusterIP']}:8000"


async def answers(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether a streamed request gives a token now."""
    try:
        async with session.post(url, json={"text_input": "Hello", "stream": True, "max_tokens": 1}) as answer:
            async for line in answer.content:
                if line.startswith(b"data:"):
                    return "text_output" in json.loads(line[5:])
    except (aiohttp.ClientError, TimeoutError):
        pass
    return False


async def startup_phases(client: RealKube, namespace: str) -> dict[str, float]:
    """Seconds by phase as the status tells them, once the service is told to serve."""
    deadline = time.monotonic() + LONG
    while True:
        service = await client.get(resources.LLM_SERVICE, namespace, NAME) or {}
        told = service.get("status", {}).get("startup", {}).get("phases", [])
        if told and all("seconds" in phase for phase in told) and serves(service):
            return {phase["name"]: phase["seconds"] for phase in told}
        if time.monotonic() > deadline:
            raise TimeoutError(f"the status of {namespace}/{NAME} never told the times of its start: {told}")
        await asyncio.sleep(0.2)


def serves(service: Manifest) -> bool:
    """Whether the status says that the service serves."""
    conditions = service.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def loaded(client: RealKube, namespace: str, figures: Figures) -> None:
    """Writes a minute of the installed operator, and its memory, while a load of changing strength runs.

    The window is a multiple of the time between two looks at a service, so that it holds no more looks than it should.
    """
    looks = 2 if quick() else 10
    await until(lambda: settled(client, namespace), "the service is settled, and its pods were looked at once")
    stop = asyncio.Event()
    running = asyncio.create_task(load(await service_url(client, namespace), stop))
    before = await operator_writes(client)
    await asyncio.sleep(looks * INTERVAL)
    writes = await operator_writes(client) - before
    stop.set()
    tally = await running
    figures.add("real_load_writes_each", writes / (looks * INTERVAL / 60), "writes/minute", 2)
    figures.add("real_load_answers", tally.answered, "answers")
    figures.add("real_load_failed", tally.failed, "answers", 0)
    figures.add("installed_operator_rss", max(await operator_memories(client)), "MB", RSS_GOAL)


async def settled(client: RealKube, namespace: str) -> bool:
    """Whether nothing about the service moves and the first figures of its columns are there."""
    status = (await client.get(resources.LLM_SERVICE, namespace, NAME) or {}).get("status", {})
    reasons = {one["type"]: one["reason"] for one in status.get("conditions", [])}
    return reasons.get("Progressing") == "Settled" and "signals" in status


async def load(url: str, stop: asyncio.Event) -> Tally:
    """Turns of more and of less load until `stop` is set; all answers together."""
    whole, turn = Tally(), 0
    while not stop.is_set():
        tally = await run_load(url, NAME, streams=STREAMS[turn % len(STREAMS)], seconds=TURN, tokens=24)
        whole.answered, whole.failed, turn = whole.answered + tally.answered, whole.failed + tally.failed, turn + 1
    return whole


async def operator_writes(client: RealKube) -> int:
    """Requests so far of all installed operators that may change the world, those for Leases left out."""
    addresses = [pod["status"]["podIP"] for pod in await operator_pods(client) if "podIP" in pod.get("status", {})]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        pages = [await metrics_page(session, address) for address in addresses]
    return sum(sum(count_writes(page).values()) for page in pages)


async def operator_memories(client: RealKube) -> list[float]:
    """Resident memory of each installed operator in MB. This host is the node, so its processes are here."""
    return [resident_megabytes(pid) for pod in await operator_pods(client) for pid in processes(pod["metadata"]["uid"])]


async def operator_pods(client: RealKube) -> list[Manifest]:
    """The pods of the release."""
    return await client.list(resources.POD, SYSTEM_NAMESPACE, labels={"app.kubernetes.io/name": RELEASE})


def processes(pod: str) -> list[int]:
    """Process ids of this host that run in the pod with this uid."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = f"pod{pod}" in (folder / "cgroup").read_text()
        except OSError:
            continue  # it has ended since
        if inside:
            found.append(int(folder.name))
    return found


async def metrics_page(session: aiohttp.ClientSession, address: str) -> str:
    """The metrics page of one operator."""
    async with session.get(f"http://{address}:8080/metrics") as answer:
        return await answer.text()
