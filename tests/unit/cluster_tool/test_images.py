"""Images are rebuilt for a reason only, and loaded without what is there already."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from cluster import images, store
from cluster.errors import ClusterError

pytestmark = pytest.mark.unit


def put(layout: Path, data: bytes) -> dict[str, str]:
    digest = hashlib.sha256(data).hexdigest()
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}"}


def index(layout: Path, **tags: bytes) -> None:
    manifests = []
    for tag, layer in tags.items():
        manifest = {"config": put(layout, b"{}"), "layers": [put(layout, layer)]}
        entry = put(layout, json.dumps(manifest).encode())
        manifests.append({**entry, "annotations": {store.REFERENCE: tag}})
    (layout / "index.json").write_text(json.dumps({"manifests": manifests}))


def test_size_is_the_sum_of_an_images_own_blobs(tmp_path: Path) -> None:
    index(tmp_path, one=b"x" * 1_000_000, two=b"y" * 5_000_000)
    assert store.size_megabytes(tmp_path, "one") == pytest.approx(1.0, abs=0.01)


def test_blobs_of_earlier_builds_are_dropped_and_used_ones_stay(tmp_path: Path) -> None:
    index(tmp_path, one=b"old")
    old = put(tmp_path, b"old")["digest"].removeprefix("sha256:")
    index(tmp_path, one=b"new")
    store.drop_unreferenced(tmp_path)
    assert not (tmp_path / "blobs" / "sha256" / old).exists()
    assert store.size_megabytes(tmp_path, "one") > 0


def test_an_image_that_was_not_built_says_how(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cluster images build"):
        store.size_megabytes(tmp_path, "none")


def test_an_unknown_image_lists_the_known_ones() -> None:
    with pytest.raises(ClusterError, match="operator or triton-cpu"):
        images.named("vllm")


def test_every_input_of_an_image_reaches_its_build() -> None:
    root = Path(images.__file__).parents[1]
    allowed = {line[1:].rstrip("/") for line in (root / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    for image in images.IMAGES.values():
        for name in image.inputs:
            assert name in allowed or name.split("/")[0] in allowed, name
            assert (root / name).exists(), name


def test_pip_in_a_build_is_told_what_pip_on_the_host_knows(tmp_path: Path) -> None:
    system, user = tmp_path / "system.conf", tmp_path / "user.conf"
    system.write_text("[global]\nindex-url = https://system.example/simple\ntimeout = 5\n[install]\nno-color = true\n")
    user.write_text("[global]\nindex-url = https://user.example/simple\n")
    text = images.pip_configuration({"PIP_TIMEOUT": "180", "PATH": "/bin"}, [system, user])
    assert text.split() == [
        *("[global]", "index-url", "=", "https://user.example/simple", "timeout", "=", "180"),
        *("[install]", "no-color", "=", "true"),
    ]


def test_pip_needs_no_configuration_on_the_host(tmp_path: Path) -> None:
    text = images.pip_configuration({"PIP_FIND_LINKS": "/wheels"}, [tmp_path / "none"])
    assert text.split() == ["[global]", "find-links", "=", "/wheels"]
