"""A claim for a cache of weights on a small volume of its own, so that a disk can be full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.main_job.kube import Kube, Manifest


@contextmanager
def small_volume(folder: Path, kilobytes: int, user: int = 1000) -> Iterator[Path]:
    """A file system in memory at `folder`, on this host, which is the node. It belongs to `user`."""
    folder.mkdir()
    options = f"size={kilobytes}k,uid={user},gid={user},mode=775"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "weights-cache", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def claimed(kube: Kube, namespace: str, name: str, folder: Path) -> Iterator[None]:
    """A PersistentVolumeClaim `name` for a folder of the node."""
    volume = f"{namespace}-{name}"
    kube.apply(_volume(volume, namespace, name, folder))
    kube.apply(_claim(volume, namespace, name))
    try:
        yield
    finally:
        kube("delete", "persistentvolume", volume, "--wait=false")


def _volume(volume: str, namespace: str, name: str, folder: Path) -> Manifest:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "hostPath": {"path": str(folder), "type": "Directory"},
        "claimRef": {"namespace": namespace, "name": name},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec}


def _claim(volume: str, namespace: str, name: str) -> Manifest:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
