"""The sandbox image, made without any image builder: one static program in a one-layer archive."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from cluster.artifacts import built, digest, log_path
from cluster.binaries import COMPONENTS_SOURCE, go
from cluster.settings import Settings
from cluster.shell import run

IMAGE = "localhost/pause:1"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(settings: Settings) -> Path:
    """The image as a docker-archive, from the cache."""
    folder = built(settings, "pause", key(), "the image that holds a pod's namespaces", lambda at: _build(settings, at))
    return folder / "pause.tar"


def key() -> str:
    """Changes with the program."""
    return digest((COMPONENTS_SOURCE / "pause" / "main.go").read_bytes())


def _build(settings: Settings, folder: Path) -> None:
    program = folder / "pause"
    command = (go(), "build", "-ldflags", "-s -w", "-o", program, "./pause")
    run(command, log_path(settings, "pause"), environment={"CGO_ENABLED": "0"}, folder=COMPONENTS_SOURCE)
    layer = _tar({"pause": program.read_bytes()})
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    files = {
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(manifest).encode(),
        "layer.tar": layer,
    }
    (folder / "pause.tar").write_bytes(_tar(files))


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
