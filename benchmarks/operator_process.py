"""The operator as a process of its own, and what is measured of it from outside: memory and requests."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from llmservice.local.ports import free_ports

PROGRAM: Final = """
import sys
from pathlib import Path
import llmservice.cli.main  # what the command has loaded as well
from llmservice.kube.lease import LeaseTimes
from llmservice.process.run import run
from llmservice.process.settings import OperatorSettings
kubeconfig, folder, namespace, port, resync, lease = sys.argv[1:]
sys.exit(run(OperatorSettings(
    operator_key_file=Path(folder, "key"), fleet_file=Path(folder, "fleet.yaml"), namespaces=(namespace,),
    lease_namespace=namespace, host="127.0.0.1", port=int(port), kubeconfig=Path(kubeconfig),
    resync_seconds=float(resync), lease_times=LeaseTimes(float(lease), float(lease) * 2 / 3, 2.0),
)))
"""
FLEET: Final = "pools: {cpu: {nodeSelector: {no-node: has-this}}}"
"""No pod is ever scheduled: the benchmark says itself what becomes of it."""
WRITES: Final = frozenset({"apply", "create", "replace", "delete"})
STOP_SECONDS: Final = 40.0

_CALLS = re.compile(r'^llmservice_operator_api_requests_total\{resource="(\w*)",.*verb="(\w+)"\} (\S+)$', re.MULTILINE)


def count_writes(metrics: str) -> dict[str, int]:
    """Requests that may change the world, by resource, from the operator's metrics page.

    Those for Leases are left out: leadership writes one every two seconds, however many services there are.
    """
    found: dict[str, int] = {}
    for resource, verb, count in _CALLS.findall(metrics):
        if verb in WRITES and resource != "leases":
            found[resource] = found.get(resource, 0) + int(float(count))
    return found


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process in MB (10^6 bytes), as the kernel counts it: shared libraries included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(f"process {pid} has no memory: it has ended")


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that a process has used, its own and the kernel's (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class OperatorProcess:
    """A running operator."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    session: aiohttp.ClientSession

    async def writes(self) -> int:
        """Requests so far that may change the world, those for Leases left out. Raises RuntimeError when it died."""
        return sum(count_writes(await self._page("/metrics")).values())

    async def leads(self) -> bool:
        """Whether it leads; False while it does not answer yet."""
        self._require_alive()
        try:
            return '"leader": true' in await self._page("/healthz")
        except aiohttp.ClientError:
            return False

    def rss(self) -> float:
        """Its resident memory in MB."""
        self._require_alive()
        return resident_megabytes(self.process.pid)

    def processor_seconds(self) -> float:
        """Processor time that it has used so far, in seconds: the same on a machine that does other things as well."""
        self._require_alive()
        return processor_seconds(self.process.pid)

    async def _page(self, path: str) -> str:
        self._require_alive()
        async with self.session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return await answer.text()

    def _require_alive(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"the operator ended with {self.process.returncode}: {self.log.read_text()[-2000:]}")


def start(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    """The process, its output in `log`."""
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=output, stderr=output)


@asynccontextmanager
async def operator_process(
    kubeconfig: Path,
    folder: Path,
    namespace: str,
    resync_seconds: float,
    fleet: str = FLEET,
    lease_seconds: float = 15.0,
) -> AsyncIterator[OperatorProcess]:
    """Runs the operator on this host for one namespace, with its files and log in `folder`.

    One that loses its lease ends, and nobody starts it again here: `lease_seconds` are how late an answer of the API
    server may come.
    """
    (folder / "key").write_text(secrets.token_hex(32))
    (folder / "fleet.yaml").write_text(fleet)
    (port,), log = free_ports(1), folder / f"{namespace}.log"
    arguments = [str(kubeconfig), str(folder), namespace, str(port), str(resync_seconds), str(lease_seconds)]
    process = start(arguments, log)
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            yield OperatorProcess(process, port, log, session)
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
