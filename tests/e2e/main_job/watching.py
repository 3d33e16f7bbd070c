"""Every state a service passes through, as a watch tells it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.main_job.kube import Kube, Manifest


class Watch:
    """The statuses of one service in the order in which they were stored."""

    def __init__(self) -> None:
        self.statuses: list[Manifest] = []

    @property
    def summaries(self) -> list[str]:
        """What the column STATUS showed, each stay once."""
        found: list[str] = []
        for status in self.statuses:
            summary = status.get("summary", "")
            if summary and found[-1:] != [summary]:
                found.append(summary)
        return found


@contextmanager
def watching(kube: Kube, namespace: str, name: str) -> Iterator[Watch]:
    """Watches from the object's creation until the block ends."""
    command = kube.command("kubectl", "-n", namespace, "get", "llm", "--field-selector", f"metadata.name={name}")
    command += ["--watch", "--output=jsonpath={.status}{'\\n'}"]
    watch = Watch()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        reader = threading.Thread(target=_read, args=(process, watch), daemon=True)
        reader.start()
        try:
            yield watch
        finally:
            process.terminate()
            reader.join(timeout=10)


def _read(process: subprocess.Popen[str], watch: Watch) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip():
            watch.statuses.append(json.loads(line))
