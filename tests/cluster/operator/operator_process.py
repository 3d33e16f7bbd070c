"""The operator as a process of its own, against a real API server."""

from __future__ import annotations

import json
import re
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from llmservice.local.ports import free_ports

T = TypeVar("T")

PROGRAM = """
import sys
from pathlib import Path
from llmservice.kube.lease import LeaseTimes
from llmservice.process.run import run
from llmservice.process.settings import OperatorSettings
kubeconfig, folder, namespace, identity, port, lease = sys.argv[1:]
sys.exit(run(OperatorSettings(
    operator_key_file=Path(folder, "key"), fleet_file=Path(folder, "fleet.yaml"), namespaces=(namespace,),
    lease_namespace=namespace, identity=identity, host="127.0.0.1", port=int(port),
    lease_times=LeaseTimes(duration=float(lease), renew_deadline=float(lease) * 0.75, retry_period=0.5),
    kubeconfig=Path(kubeconfig),
)))
"""
STILL_SECONDS = 3.0
FLEET = "pools: {cpu: {nodeSelector: {no-node: has-this}}}"
"""No pod is ever scheduled, whether the cluster has nodes or not: a test says itself what becomes of it."""

_WRITES = re.compile(r'^llmservice_operator_api_requests_total\{resource="(\w+)",.*verb="(\w+)"\} (\S+)$', re.MULTILINE)


def eventually(probe: Callable[[], T], what: str, seconds: float = 60.0) -> T:
    """What `probe` answers once that is true. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; last seen: {found!r}")
        time.sleep(0.1)


@dataclass
class OperatorProcess:
    """One replica of the operator, watching one namespace."""

    kubeconfig: Path
    namespace: str
    identity: str
    folder: Path
    fleet: str = FLEET
    lease_seconds: float = 8.0
    port: int = 0
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        (self.port,) = free_ports(1)
        key = self.folder / "key"
        if not key.exists():
            key.write_text(secrets.token_hex(32))
        (self.folder / "fleet.yaml").write_text(self.fleet)
        self.log_file = self.folder / f"{self.identity}.log"
        arguments = [str(self.kubeconfig), str(self.folder), self.namespace, self.identity, str(self.port)]
        arguments.append(str(self.lease_seconds))
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stderr=log, stdout=log)

    def page(self, path: str) -> str:
        """A page of the process; empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return ""

    def health(self) -> dict[str, Any]:
        """What `/healthz` says."""
        found: dict[str, Any] = json.loads(self.page("/healthz") or "{}")
        return found

    def is_ready(self) -> bool:
        """Whether `/readyz` says so."""
        return '"ready": true' in self.page("/readyz")

    def writes(self) -> int:
        """Requests so far that may change the world, those for the Lease left out."""
        return sum(
            int(float(count))
            for resource, verb, count in _WRITES.findall(self.page("/metrics"))
            if verb in {"apply", "create", "replace", "delete"} and resource != "leases"
        )

    def writes_at_rest(self) -> int:
        """`writes` once they stand still: the Event of a transition is written after the status that tells it."""
        seen = [(self.writes(), time.monotonic())]

        def still() -> bool:
            if (now := self.writes()) != seen[-1][0]:
                seen.append((now, time.monotonic()))
            return time.monotonic() - seen[-1][1] > STILL_SECONDS

        eventually(still, f"nothing is written for {STILL_SECONDS:.0f} s")
        return seen[-1][0]

    def log(self) -> list[dict[str, Any]]:
        """Its log, line by line; every line must be JSON."""
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends the process by a signal; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(40)
