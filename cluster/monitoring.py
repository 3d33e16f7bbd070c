"""A Prometheus of the cluster: Debian's program as a process of this host, which scrapes the pods of every service.

It is no part of a tier: `python3 -m cluster prometheus start` adds it to a cluster that is up; `down` takes it away.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from cluster import packages, ports, processes
from cluster.api import healthy
from cluster.errors import ClusterError
from cluster.processes import Component
from cluster.settings import REPOSITORY, Settings

NAME: Final = "prometheus"
SCRAPE_INTERVAL: Final = "5s"
"""A third of what the operator takes for usual: tests see what changes sooner."""
RETENTION: Final = "2d"
DISCOVERY: Final = "prometheus-targets"


def start(settings: Settings, *, scraping: bool = True) -> str:
    """Start it unless it runs so; its URL, which host and pods reach. What it had stored is there again.

    Without `scraping` it looks at nothing: series that it has go stale while it answers. Raises ClusterError.
    """
    if processes.running(settings, "kube-apiserver") is None:
        raise ClusterError(f"cluster {settings.name} is down: run `python3 -m cluster up` first")
    packages.ensure(settings, packages.MONITORING)
    components = (_discovery(settings), _component(settings, scraping=scraping))
    for component in components:
        processes.ensure(settings, component)
    for component in components:
        processes.wait_ready(settings, component)
    return url(settings)


def stop(settings: Settings) -> bool:
    """End it; True when it ran. What it stored stays."""
    processes.stop(settings, DISCOVERY)
    return processes.stop(settings, NAME)


def empty(settings: Settings, *, scraping: bool = True) -> str:
    """Lose all that was stored, and start it."""
    stop(settings)
    shutil.rmtree(_folder(settings) / "data", ignore_errors=True)
    return start(settings, scraping=scraping)


def hide(settings: Settings, *pods: str) -> None:
    """Leave pods out of what is scraped until the next `start`: what they tell vanishes, and nothing else does."""
    processes.stop(settings, DISCOVERY)
    file = _targets(settings)
    kept = [one for one in json.loads(file.read_text()) if one["labels"]["pod"] not in pods]
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(kept, indent=1) + "\n")
    fresh.rename(file)


def runs(settings: Settings) -> bool:
    """Whether it does."""
    return processes.running(settings, NAME) is not None


def url(settings: Settings) -> str:
    """Where it answers: on the bridge's address, as the API server does."""
    return f"http://{settings.gateway}:{_port(settings)}"


def configuration(settings: Settings, *, scraping: bool = True) -> dict[str, Any]:
    """`prometheus.yml` (JSON is YAML)."""
    job = {"job_name": "llmservices", "file_sd_configs": [{"files": [str(_targets(settings))]}]}
    return {
        "global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL},
        "scrape_configs": [job] if scraping else [],
    }


def _discovery(settings: Settings) -> Component:
    """Keeps the file of targets up to date; it is there before Prometheus reads it."""
    variables = {"PYTHONPATH": str(REPOSITORY), **settings.environment}
    file = _targets(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    program = (sys.executable, "-m", "cluster.targets", str(file))
    return Component(
        name=DISCOVERY,
        command=("/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), *program),
        ready=file.exists,
    )


def _component(settings: Settings, *, scraping: bool) -> Component:
    folder = _folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(configuration(settings, scraping=scraping), indent=1) + "\n")
    return Component(
        name=NAME,
        command=(
            shutil.which("prometheus") or "/usr/bin/prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--storage.tsdb.retention.time={RETENTION}",
            f"--web.listen-address={settings.gateway}:{_port(settings)}",
            "--log.level=warn",
        ),
        configuration=(file,),
        ready=lambda: healthy(f"{url(settings)}/-/ready"),
    )


def _port(settings: Settings) -> int:
    """Chosen once, and kept for the life of the cluster."""
    file = _folder(settings) / "port"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{ports.any_free(settings.gateway, set())}\n")
    return int(file.read_text())


def _targets(settings: Settings) -> Path:
    return _folder(settings) / "targets.json"


def _folder(settings: Settings) -> Path:
    return settings.state / NAME
