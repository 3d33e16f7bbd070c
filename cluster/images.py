"""The project's images, built from its Dockerfile by buildah, without Docker and without a registry."""

from __future__ import annotations

import configparser
import io
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster import baseimage, packages, store
from cluster.artifacts import digest, log_path, tree_digest
from cluster.errors import ClusterError
from cluster.locks import held
from cluster.progress import say, step
from cluster.settings import REPOSITORY, Settings
from cluster.shell import answer, run, succeeds

BASE_CONTEXT = "base-context"  # the folder from which the base image is put into the store
KEY_LABEL = "triton-llm.dev/build-key"


@dataclass(frozen=True)
class Image:
    """A target of the Dockerfile and what it is made of."""

    target: str
    tag: str
    inputs: tuple[str, ...]
    why: str


IMAGES = {
    "operator": Image(
        "operator",
        "localhost/llmservice-operator:dev",
        ("operator", "model_repository", "crds", "pyproject.toml", "README.md", "LICENSE", "requirements/operator.txt"),
        "the operator; about 1 min the first time",
    ),
    "triton-cpu": Image(
        "triton-cpu",
        "localhost/triton-cpu:dev",
        ("requirements/triton.txt", "requirements/model.txt"),
        "a real tritonserver for CPU with the small language model; about 1 min the first time",
    ),
}


def build(settings: Settings, name: str) -> str:
    """Build one image unless its inputs are unchanged; returns its tag."""
    image = IMAGES[name]
    packages.ensure(settings, packages.IMAGES)
    with held(settings.cache / "locks" / "buildah.lock", "images"):
        key = _key(image)
        if _built_key(settings, image.tag) == key:
            say(f"{image.tag}: unchanged since it was built")
            return image.tag
        _ensure_base(settings)
        with step(image.tag, f"building {image.why}"):
            _build(settings, image, key)
    return image.tag


def load(settings: Settings, name: str) -> None:
    """Put an image into the running cluster, sending only the layers it lacks."""
    tag = build(settings, name)
    store.import_layout(settings, layout(settings), tag)


def layout(settings: Settings) -> Path:
    """An OCI layout folder: it keeps every layer once, so that a new build writes only what changed."""
    return settings.cache / "oci"


def size_megabytes(settings: Settings, name: str) -> float:
    """Size of a built image as a registry holds it: its layers, compressed."""
    return store.size_megabytes(layout(settings), IMAGES[name].tag)


def unused(settings: Settings, *, everything: bool) -> list[Path]:
    """Folders of image data that can go; layers of earlier builds are dropped from the layout on the way."""
    if everything:
        folders = (settings.cache / "buildah", settings.cache / BASE_CONTEXT, layout(settings))
        return [folder for folder in folders if folder.exists()]
    store.drop_unreferenced(layout(settings))
    return []


def _build(settings: Settings, image: Image, key: str) -> None:
    log = log_path(settings, f"image-{image.target}")
    log.unlink(missing_ok=True)
    command = [*_buildah(settings), "build", "--layers", "--pull=never", "--network=host", "--isolation=chroot"]
    command += ["--target", image.target, "--label", f"{KEY_LABEL}={key}", "--tag", image.tag]
    command += [f"--volume={item}" for item in _host_volumes(settings)]
    run([*command, "--file", REPOSITORY / "Dockerfile", REPOSITORY], log, background=True)
    target = f"oci:{layout(settings)}:{image.tag}"
    run([*_buildah(settings), "push", image.tag, target], log)


def _ensure_base(settings: Settings) -> None:
    archive = baseimage.archive(settings)
    key = archive.parent.name
    if _built_key(settings, baseimage.TAG) == key:
        return
    folder = settings.cache / BASE_CONTEXT
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "Dockerfile"
    recipe.write_text(f'FROM scratch\nADD root.tar /\nLABEL {KEY_LABEL}={key}\nCMD ["python3"]\n')
    (folder / "root.tar").unlink(missing_ok=True)
    os.link(archive, folder / "root.tar")
    command = [*_buildah(settings), "build", "--layers", "--isolation=chroot", "--tag", baseimage.TAG, folder]
    with step(baseimage.TAG, "storing the base image where the Dockerfile's FROM finds it"):
        run(command, log_path(settings, "image-base"))


def build_key(name: str) -> str:
    """What an image is made of, as a short digest: another key, another image."""
    return _key(IMAGES[name])


def _key(image: Image) -> str:
    return digest(tree_digest(REPOSITORY, ("Dockerfile", ".dockerignore", *image.inputs)), image.target)


def _built_key(settings: Settings, tag: str) -> str | None:
    """The build key of an image in the layout and in buildah's store; None when either lacks it."""
    if not succeeds([*_buildah(settings), "inspect", "--type", "image", tag]):
        return None
    found = json.loads(answer([*_buildah(settings), "inspect", "--type", "image", tag]))
    labels: dict[str, str] = found["OCIv1"]["config"].get("Labels") or {}
    return labels.get(KEY_LABEL)


def _buildah(settings: Settings) -> list[str | Path]:
    """Buildah with a store of our own in the cache, beside any other on this host."""
    top = settings.cache / "buildah"
    on_overlay = answer(["stat", "--file-system", "--format=%T", settings.cache]).strip() == "overlayfs"
    driver = "vfs" if on_overlay else "overlay"
    return ["buildah", "--root", top / "root", "--runroot", top / "run", "--storage-driver", driver]


def _host_volumes(settings: Settings, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What pip inside a build needs of this host: its certificates and its configuration, none of it kept."""
    config = settings.cache / "pip.conf"
    config.touch(mode=0o600)
    config.chmod(0o600)  # an index's address may hold a password
    config.write_text(pip_configuration(environment, _pip_files(environment)))
    volumes = ["/etc/ssl/certs:/etc/ssl/certs:ro", f"{config}:/etc/pip.conf:ro"]
    links = environment.get("PIP_FIND_LINKS", "").split()
    return volumes + [f"{link}:{link}:ro" for link in links if Path(link).is_dir()]


def pip_configuration(environment: Mapping[str, str], files: Iterable[Path]) -> str:
    """One pip.conf out of the host's, in which later files win, and the PIP_ variables, which win over all."""
    merged = configparser.RawConfigParser()
    merged.read(files)
    if not merged.has_section("global"):
        merged.add_section("global")
    for key, value in environment.items():
        if key.startswith("PIP_") and key != "PIP_CONFIG_FILE":
            merged.set("global", key.removeprefix("PIP_").lower().replace("_", "-"), value)
    text = io.StringIO()
    merged.write(text)
    return text.getvalue()


def _pip_files(environment: Mapping[str, str]) -> list[Path]:
    home = Path(environment.get("HOME", "/root"))
    files = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", home / ".config" / "pip" / "pip.conf"]
    return [*files, Path(environment["PIP_CONFIG_FILE"])] if environment.get("PIP_CONFIG_FILE") else files


def named(name: str) -> str:
    """The name itself; raises ClusterError when it is no image of ours."""
    if name not in IMAGES:
        raise ClusterError(f"{name!r} is not an image of this project: choose {' or '.join(IMAGES)}")
    return name
