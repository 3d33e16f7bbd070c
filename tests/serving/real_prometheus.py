"""A real Prometheus of its own, on 127.0.0.1."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster import packages
from cluster.settings import from_environment
from llmservice.local.ports import free_ports
from tests.serving.eventually import eventually


@dataclass
class RealPrometheus:
    """A Prometheus that scrapes `address` once a second, as if it were a pod with these labels."""

    address: str
    labels: Mapping[str, str]
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Starts it, with what it had stored, and returns once it answers."""
        job = {"job_name": "pods", "static_configs": [{"targets": [self.address], "labels": dict(self.labels)}]}
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [job]}
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        arguments = {
            "config.file": self.folder / "prometheus.yml",
            "storage.tsdb.path": self.folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        command = ["prometheus", *(f"--{name}={value}" for name, value in arguments.items())]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220 - it starts at once
        await eventually(self._answers, 60, "Prometheus answers")

    def stop(self) -> None:
        """Kills it; a restart finds what it stored."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def empty(self) -> None:
        """Loses everything it stored."""
        shutil.rmtree(self.folder / "data")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@asynccontextmanager
async def real_prometheus(address: str, **labels: str) -> AsyncIterator[RealPrometheus]:
    """Starts one, and removes it with all it stored."""
    packages.ensure(from_environment(), packages.MONITORING)
    (port,) = free_ports(1)
    prometheus = RealPrometheus(address, labels, Path(tempfile.mkdtemp(prefix="prometheus-")), port)
    try:
        await prometheus.start()
        yield prometheus
    finally:
        prometheus.stop()
        shutil.rmtree(prometheus.folder)
