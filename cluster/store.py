"""The image store of our containerd: what it has, and putting in only what it lacks."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from cluster import processes
from cluster.errors import ClusterError
from cluster.progress import say
from cluster.settings import Settings
from cluster.shell import answer

REFERENCE = "org.opencontainers.image.ref.name"
NAMESPACE = "k8s.io"  # the one the kubelet looks in


def require_running(settings: Settings) -> None:
    """Raise ClusterError when no containerd of ours takes images."""
    if processes.running(settings, "containerd") is None:
        raise ClusterError(f"cluster {settings.name} has no running node: run `python3 -m cluster up` first")


def images(settings: Settings) -> dict[str, str]:
    """Name -> digest of the images that pods can use."""
    lines = answer([*_ctr(settings), "images", "list"]).splitlines()[1:]
    return {fields[0]: fields[2] for fields in map(str.split, lines) if len(fields) > 2}


def import_archive(settings: Settings, archive: Path) -> None:
    """Import a docker-archive or an oci-archive as it is."""
    answer([*_ctr(settings), "images", "import", archive])


def import_layout(settings: Settings, layout: Path, image: str) -> None:
    """Import one image of an OCI layout folder, streaming only the blobs that containerd has not.

    After a change of code that is the top layer: no archive is written, nothing large is read.
    """
    begin = time.monotonic()
    require_running(settings)
    entry = _entry(layout, image)
    if images(settings).get(image) == entry["digest"]:
        say(f"{image}: the cluster has it already")
        return
    present = set(answer([*_ctr(settings), "content", "ls", "--quiet"]).split())
    blobs = [blob for blob in _blobs(layout, entry["digest"]) if blob not in present]
    entry = {**entry, "annotations": {REFERENCE: image, "io.containerd.image.name": image}}
    _stream(settings, layout, blobs, {"schemaVersion": 2, "manifests": [entry]})
    size = sum(_blob_path(layout, blob).stat().st_size for blob in blobs) / 1e6
    say(f"{image}: loaded {len(blobs)} new blobs, {size:.0f} MB, in {time.monotonic() - begin:.1f} s")


def size_megabytes(layout: Path, image: str) -> float:
    """Size of an image's blobs; raises ClusterError when the layout lacks it."""
    entry = _entry(layout, image)
    return sum(_blob_path(layout, blob).stat().st_size for blob in _blobs(layout, entry["digest"])) / 1e6


def drop_unreferenced(layout: Path) -> None:
    """Delete the blobs that no image of the layout uses any more."""
    if not (layout / "index.json").exists():
        return
    manifests = json.loads((layout / "index.json").read_text())["manifests"]
    used = {_blob_path(layout, blob) for entry in manifests for blob in _blobs(layout, entry["digest"])}
    for blob in (layout / "blobs" / "sha256").iterdir():
        if blob not in used:
            blob.unlink()


def _entry(layout: Path, image: str) -> dict[str, Any]:
    index = layout / "index.json"
    manifests = json.loads(index.read_text())["manifests"] if index.exists() else []
    for entry in manifests:
        if entry.get("annotations", {}).get(REFERENCE) == image:
            found: dict[str, Any] = entry
            return found
    raise ClusterError(f"image {image} is not in {layout}: run `python3 -m cluster images build` first")


def _blobs(layout: Path, manifest_digest: str) -> Iterator[str]:
    manifest = json.loads(_blob_path(layout, manifest_digest).read_text())
    yield from (layer["digest"] for layer in manifest["layers"])
    yield manifest["config"]["digest"]
    yield manifest_digest


def _blob_path(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def _stream(settings: Settings, layout: Path, blobs: list[str], index: dict[str, object]) -> None:
    process = subprocess.Popen(
        [*_ctr(settings), "images", "import", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    sink, complaints = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stderr)
    try:
        with sink, tarfile.open(fileobj=sink, mode="w|", bufsize=1 << 20) as tar:
            _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
            _add(tar, "index.json", json.dumps(index).encode())
            for blob in blobs:
                tar.add(_blob_path(layout, blob), f"blobs/{blob.replace(':', '/')}")
    except BrokenPipeError:
        pass  # ctr ended early: its complaint says why
    with complaints:
        message = complaints.read().decode(errors="replace").strip()
    if process.wait():
        raise ClusterError(f"containerd did not take the image: {message}")


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _ctr(settings: Settings) -> list[str | Path]:
    return ["ctr", "--address", settings.containerd_socket, "--namespace", NAMESPACE]
