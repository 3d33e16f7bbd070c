"""Debian packages: looked for by the program they bring, installed only when it is missing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from cluster.errors import ClusterError
from cluster.locks import held
from cluster.progress import step
from cluster.settings import Settings
from cluster.shell import run

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Program -> (Debian package, why it is needed).
PROGRAMS = {
    "openssl": ("openssl", "certificates of the components"),
    "ip": ("iproute2", "the bridge between the pods"),
    "containerd": ("containerd", "runs the pods' containers"),
    "runc": ("runc", "starts containers"),
    "iptables": ("iptables", "kube-proxy's Services"),
    "conntrack": ("conntrack", "kube-proxy forgets connections to gone pods"),
    "/usr/lib/cni/bridge": ("containernetworking-plugins", "pod networking"),
    "ethtool": ("ethtool", "the kubelet's hairpin check"),
    "socat": ("socat", "kubectl port-forward"),
    "buildah": ("buildah", "builds images without Docker"),
    "debootstrap": ("debootstrap", "makes the base image where no container registry is reachable"),
    "c++": ("g++", "compiles the torch engine's kernels"),
    "prometheus": ("prometheus", "measures what the operator tunes by"),
}
API_TIER = ("openssl", "ip")
NODE = ("containerd", "runc", "iptables", "conntrack", "/usr/lib/cni/bridge", "ethtool", "socat")
IMAGES = ("buildah", "debootstrap")
COMPILER = ("c++",)
MONITORING = ("prometheus",)


def ensure(settings: Settings, programs: Iterable[str]) -> None:
    """Install the packages of the programs that are missing; raises ClusterError when that is not possible."""
    missing = _missing(programs)
    if not missing:
        return
    packages = {PROGRAMS[program][0]: PROGRAMS[program][1] for program in missing}
    listing = ", ".join(f"{package} ({why})" for package, why in packages.items())
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ClusterError(f"these Debian packages are missing and need root to install: {listing}")
    with held(settings.cache / "locks" / "apt.lock", "Debian packages"):
        if not _missing(programs):
            return
        log = settings.cache / "logs" / "apt.log"
        environment = {"DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "-y", "-o", "DPkg::Lock::Timeout=300", "install", "--no-install-recommends", *packages]
        with step("Debian packages", f"installing {listing}"), _services_stay_stopped():
            run(["apt-get", "-o", "DPkg::Lock::Timeout=300", "update"], log, environment=environment)
            run(install, log, environment=environment)


def find(program: str) -> str | None:
    """Path of a program, also from the system folders that a user's PATH may lack."""
    if program.startswith("/"):
        return program if Path(program).exists() else None
    return shutil.which(program) or shutil.which(program, path=SYSTEM_PATH)


def _missing(programs: Iterable[str]) -> list[str]:
    return [program for program in programs if find(program) is None]


@contextlib.contextmanager
def _services_stay_stopped() -> Iterator[None]:
    """Keep Debian from starting the packages' own daemons: a policy-rc.d that says no, unless there is one."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)
