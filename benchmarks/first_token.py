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
from benchmarks.operator_process import count_writes
from benchmarks.waiting import LONG, until
from cluster import images, lifecycle, testing, values
from cluster.lifecycle import Tier
from cluster.settings import from_environment
from demo.load import run_load
from demo.steps import RELEASE, SYSTEM_NAMESPACE, install
from demo.terminal import Terminal
from llmservice.kube import resources
from llmservice.kube.real import RealKube, connect
from llmservice.kube.resources import Manifest

NAME: Final = "smollm2"
EXAMPLE: Final = ROOT / "examples" / "smollm2.yaml"
NAMESPACE: Final = "bench-first-token"
GOAL: Final = 30
POLL: Final = 0.05
STREAMS: Final = (8, 2)
"""Streams of the load, in turn: the figures of the columns shall move."""
TURN: Final = 15.0


def measure(figures: Figures) -> None:
    """Installs the operator, measures, and takes away what was not there before."""
    settings = from_environment()
    was_up = lifecycle.is_up(settings, Tier.FULL)
    testing.ensure_up(settings, Tier.FULL)
    for image in images.IMAGES:
        images.load(settings, image)
    path = f"{settings.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    terminal = Terminal({"PATH": path, "KUBECONFIG": str(settings.kubeconfig)})
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
    """A fresh namespace; the service in it is gone at the end, the namespace soon after."""
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, field_manager="benchmark")
    try:
        yield name
    finally:
        await client.delete(resources.NAMESPACE, None, name)
        await until(lambda: gone(client, name), f"namespace {name} is gone")


async def gone(client: RealKube, namespace: str) -> bool:
    """Whether the namespace is no more."""
    return await client.get(resources.NAMESPACE, None, namespace) is None


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
    """Writes a minute of the installed operator while a load of changing strength runs on the service."""
    seconds = 90 if quick() else 300
    url = await service_url(client, namespace)
    before, begun = await operator_writes(client), time.monotonic()
    answered = failed = turn = 0
    while time.monotonic() - begun < seconds:
        tally = await run_load(url, NAME, streams=STREAMS[turn % len(STREAMS)], seconds=TURN, tokens=24)
        answered, failed, turn = answered + tally.answered, failed + tally.failed, turn + 1
    minutes = (time.monotonic() - begun) / 60
    figures.add("real_load_writes_each", (await operator_writes(client) - before) / minutes, "writes/minute", 2)
    figures.add("real_load_answers", answered, "answers")
    figures.add("real_load_failed", failed, "answers", 0)


async def operator_writes(client: RealKube) -> int:
    """Requests so far of all installed operators that may change the world, those for Leases left out."""
    labels = {"app.kubernetes.io/name": RELEASE}
    pods = await client.list(resources.POD, SYSTEM_NAMESPACE, labels=labels)
    addresses = [pod["status"]["podIP"] for pod in pods if pod.get("status", {}).get("podIP")]
    async with aiohttp.ClientSession() as session:
        pages = [await metrics_page(session, address) for address in addresses]
    return sum(sum(count_writes(page).values()) for page in pages)


async def metrics_page(session: aiohttp.ClientSession, address: str) -> str:
    """The metrics page of one operator."""
    async with session.get(f"http://{address}:8080/metrics") as answer:
        return await answer.text()
