"""The programs that no Debian package brings: built from source by Go, once, into the user cache."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cluster import statefolder
from cluster.artifacts import built, digest, log_path
from cluster.errors import ClusterError
from cluster.settings import REPOSITORY, Settings
from cluster.shell import run

KUBERNETES_VERSION = "v1.34.4"
COMPONENTS_SOURCE = REPOSITORY / "cluster" / "components"
COMPONENT_NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)


@dataclass(frozen=True)
class Tool:
    """A program that is one Go package."""

    package: str
    version: str
    why: str


TOOLS = {
    "kwok": Tool("sigs.k8s.io/kwok/cmd/kwok", "v0.7.0", "simulates GPU nodes; about 2 min the first time"),
    "coredns": Tool("github.com/coredns/coredns", "v1.12.4", "cluster DNS; about 3 min the first time"),
    "helm": Tool("helm.sh/helm/v3/cmd/helm", "v3.19.5", "installs the chart; about 2 min the first time"),
}
API_TIER = ("kubernetes", "kwok")
FULL_TIER = ("kubernetes", "kwok", "coredns", "helm")
AT_ONCE = 2  # one compiles while the other downloads or links


def ensure(settings: Settings, names: Iterable[str]) -> None:
    """Build what is missing and link every program into the state's `bin` folder."""
    names = tuple(names)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        folders = dict(zip(names, pool.map(lambda name: _folder(settings, name), names), strict=True))
    statefolder.ensure(settings)
    settings.bin.mkdir(parents=True, exist_ok=True)
    for name, folder in folders.items():
        for link in COMPONENT_NAMES if name == "kubernetes" else (name,):
            _link(settings.bin / link, folder / name)


def artifact_names() -> dict[str, str]:
    """Name and key of every program's cache folder as of these sources."""
    source = [(COMPONENTS_SOURCE / file).read_bytes() for file in ("go.mod", "go.sum", "main.go")]
    return {
        "kubernetes": digest(KUBERNETES_VERSION, *source),
        **{name: tool.version for name, tool in TOOLS.items()},
    }


def _folder(settings: Settings, name: str) -> Path:
    key = artifact_names()[name]
    if name == "kubernetes":
        why = f"building Kubernetes {KUBERNETES_VERSION} and etcd from source; about 9 min on 2 cores the first time"
        return built(settings, name, key, why, lambda folder: _build_kubernetes(settings, folder))
    tool = TOOLS[name]
    why = f"building {name} {tool.version} from source: {tool.why}"
    return built(settings, name, key, why, lambda folder: _build_tool(settings, name, tool, folder))


def _build_kubernetes(settings: Settings, folder: Path) -> None:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    stamps = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    flags = "-s -w " + " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())
    run(
        [go(), "build", "-ldflags", flags, "-o", folder / "kubernetes", "."],
        log_path(settings, "kubernetes"),
        environment={"CGO_ENABLED": "0"},
        folder=COMPONENTS_SOURCE,
        background=True,
    )


def _build_tool(settings: Settings, name: str, tool: Tool, folder: Path) -> None:
    run(
        [go(), "install", f"{tool.package}@{tool.version}"],
        log_path(settings, name),
        environment={"CGO_ENABLED": "0", "GOBIN": str(folder)},
        folder=folder,
        background=True,
    )


def go() -> str:
    """The Go compiler; raises ClusterError when there is none."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        raise ClusterError("Go 1.25 or later builds Kubernetes here: install it from https://go.dev/dl, put it in PATH")
    return found


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.rename(link)
