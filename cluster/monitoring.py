"""A Prometheus of the cluster: Debian's program as a process of this host, which scrapes the pods of every service.

It is no part of a tier: `python3 -m cluster prometheus start` adds it to a cluster that is up; `down` takes it away.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from cluster import packages, ports, processes
from cluster.api import healthy
from cluster.errors import ClusterError
from cluster.processes import Component
from cluster.settings import Settings

NAME: Final = "prometheus"
SCRAPE_INTERVAL: Final = "5s"
"""A third of what the operator takes for usual: tests see what changes sooner."""
RETENTION: Final = "2d"
PAGES: Final = "metrics|openai-admin"
"""Names of the container ports that tell metrics, as in a service's PodMonitor."""


def start(settings: Settings, *, scraping: bool = True) -> str:
    """Start it unless it runs so; its URL, which host and pods reach. What it had stored is there again.

    Without `scraping` it looks at nothing: series that it has go stale while it answers. Raises ClusterError.
    """
    if processes.running(settings, "kube-apiserver") is None:
        raise ClusterError(f"cluster {settings.name} is down: run `python3 -m cluster up` first")
    packages.ensure(settings, packages.MONITORING)
    component = _component(settings, scraping=scraping)
    processes.ensure(settings, component)
    processes.wait_ready(settings, component)
    return url(settings)


def stop(settings: Settings) -> bool:
    """End it; True when it ran. What it stored stays."""
    return processes.stop(settings, NAME)


def empty(settings: Settings) -> str:
    """Lose all that was stored, and start it."""
    stop(settings)
    shutil.rmtree(_folder(settings) / "data", ignore_errors=True)
    return start(settings)


def runs(settings: Settings) -> bool:
    """Whether it does."""
    return processes.running(settings, NAME) is not None


def url(settings: Settings) -> str:
    """Where it answers: on the bridge's address, as the API server does."""
    return f"http://{settings.gateway}:{_port(settings)}"


def configuration(settings: Settings, *, scraping: bool = True) -> dict[str, Any]:
    """`prometheus.yml` (JSON is YAML): every running pod of a service, with the labels namespace and pod."""
    pod = "__meta_kubernetes_pod"
    keep = {"action": "keep", "source_labels": [f"{pod}_label_app_kubernetes_io_name"], "regex": "llmservice"}
    job = {
        "job_name": "llmservices",
        "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(settings.kubeconfig)}],
        "relabel_configs": [
            keep,
            {"action": "keep", "source_labels": [f"{pod}_container_port_name"], "regex": PAGES},
            {"action": "keep", "source_labels": [f"{pod}_phase"], "regex": "Running"},
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
            {"source_labels": [f"{pod}_name"], "target_label": "pod"},
        ],
    }
    return {
        "global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL},
        "scrape_configs": [job] if scraping else [],
    }


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
        configuration=(file, settings.kubeconfig),
        ready=lambda: healthy(f"{url(settings)}/-/ready"),
    )


def _port(settings: Settings) -> int:
    """Chosen once, and kept for the life of the cluster."""
    file = _folder(settings) / "port"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{ports.any_free(settings.gateway, set())}\n")
    return int(file.read_text())


def _folder(settings: Settings) -> Path:
    return settings.state / NAME
