"""What the cluster's Prometheus scrapes, kept in a file: Debian builds Prometheus without discovery in Kubernetes.

`python3 -m cluster.targets` runs beside it, as a component of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from cluster import ports, simulated
from cluster.api import Api, Manifest
from cluster.errors import ClusterError
from cluster.progress import say
from cluster.settings import from_environment

PAGES: Final = ("metrics", "openai-admin")
"""Names of the container ports that tell metrics, as in a service's PodMonitor."""
PODS: Final = "/api/v1/pods?labelSelector=app.kubernetes.io%2Fname%3Dllmservice"
EVERY: Final = 2.0
"""Seconds between two looks."""


def targets_of(pods: Iterable[Manifest]) -> list[dict[str, Any]]:
    """The pages of every running pod, in the form of `file_sd_configs`, with the labels that a PodMonitor gives."""
    found = []
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        if status.get("phase") != "Running" or not status.get("podIP"):
            continue
        for container in pod["spec"]["containers"]:
            for port in container.get("ports") or ():
                if port.get("name") in PAGES:
                    labels = {"namespace": metadata["namespace"], "pod": metadata["name"]}
                    labels |= {"container": container["name"], "endpoint": port["name"]}
                    found.append({"targets": [f"{status['podIP']}:{port['containerPort']}"], "labels": labels})
    return found


def write(api: Api, file: Path) -> bool:
    """Writes the targets of now; True when they changed. Raises OSError when the API server does not answer."""
    pods = api.get(PODS) or {}
    text = json.dumps(targets_of(pods.get("items") or ()), indent=1) + "\n"
    if file.exists() and file.read_text() == text:
        return False
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(file)
    return True


def main(arguments: list[str]) -> None:
    """Keeps the file up to date for as long as the cluster's state is there."""
    settings, (name,) = from_environment(), arguments
    file, said = Path(name), ""
    while chosen := ports.read(settings):
        try:
            write(simulated.running_api(settings, chosen), file)
            said = ""
        except (OSError, ClusterError) as error:
            if str(error) != said:
                say(f"targets stay: {error}")
            said = str(error)
        time.sleep(EVERY)


if __name__ == "__main__":
    main(sys.argv[1:])
