"""Certificates and kubeconfigs: one authority per cluster, one identity per component, made by openssl."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from cluster.settings import Settings
from cluster.shell import answer

DAYS = "3650"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
IDENTITIES = {  # file name -> subject
    "admin": "/O=system:masters/CN=admin",
    "kube-apiserver-kubelet": "/O=system:masters/CN=kube-apiserver-kubelet",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
    "coredns": "/CN=system:coredns",
    "front-proxy-client": "/CN=front-proxy-client",
}


def ensure(settings: Settings, address: str, port: int) -> None:
    """Make what is missing; certificates outlive a restart, kubeconfigs follow the API server's address."""
    folder = pki(settings)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / "ca.crt").exists():
        _authority(folder)
    if not (folder / "service-accounts.key").exists():
        _service_account_key(folder)
    addresses = ("127.0.0.1", settings.gateway, settings.kubernetes_address)
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    _certificate(folder, "kube-apiserver", "/CN=kube-apiserver", names, addresses)
    kubelet = f"/O=system:nodes/CN=system:node:{settings.node}"
    _certificate(folder, "kubelet", kubelet, (settings.node, "localhost"), ("127.0.0.1", settings.gateway))
    for name, subject in IDENTITIES.items():
        _certificate(folder, name, subject, (), ())
    for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "coredns"):
        _write_kubeconfig(settings, name, folder / f"{name}.kubeconfig", address, port)
    _write_kubeconfig(settings, "admin", settings.kubeconfig, address, port)


def pki(settings: Settings) -> Path:
    """The folder of keys and certificates."""
    return settings.state / "pki"


def _authority(folder: Path) -> None:
    config = _extensions(folder / "ca.cnf", ["basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign,cRLSign"])
    key, certificate = folder / "ca.key", folder / ".ca.crt.new"
    _request(config, "/CN=llmservice-cluster", key, certificate, ())
    certificate.rename(folder / "ca.crt")


def _service_account_key(folder: Path) -> None:
    key = folder / ".service-accounts.key.new"
    answer(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", key])
    answer(["openssl", "pkey", "-in", key, "-pubout", "-out", folder / "service-accounts.pub"])
    key.rename(folder / "service-accounts.key")


def _certificate(folder: Path, name: str, subject: str, names: tuple[str, ...], addresses: tuple[str, ...]) -> None:
    certificate = folder / f"{name}.crt"
    if certificate.exists():
        return
    extensions = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth,serverAuth"]
    alternatives = [f"DNS:{item}" for item in names] + [f"IP:{item}" for item in addresses]
    if alternatives:
        extensions.append("subjectAltName=" + ",".join(alternatives))
    config = _extensions(folder / f"{name}.cnf", extensions)
    fresh = folder / f".{name}.crt.new"
    authority = ("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key")
    _request(config, subject, folder / f"{name}.key", fresh, authority)
    fresh.rename(certificate)


def _request(config: Path, subject: str, key: Path, certificate: Path, authority: tuple[str | Path, ...]) -> None:
    output = ("-days", DAYS, "-keyout", key, "-out", certificate)
    answer(["openssl", "req", "-x509", *KEY, "-config", config, "-subj", subject, *authority, *output])


def _extensions(path: Path, extensions: list[str]) -> Path:
    lines = ["[req]", "distinguished_name=subject", "x509_extensions=extensions", "prompt=no", "[subject]"]
    path.write_text("\n".join([*lines, "[extensions]", *extensions, ""]))
    return path


def _write_kubeconfig(settings: Settings, name: str, path: Path, address: str, port: int) -> None:
    """Certificates go inside, so that the file alone can be copied; JSON is YAML."""
    folder = pki(settings)

    def data(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    cluster = {"server": f"https://{address}:{port}", "certificate-authority-data": data("ca.crt")}
    user = {"client-certificate-data": data(f"{name}.crt"), "client-key-data": data(f"{name}.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": settings.name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": settings.name, "context": {"cluster": settings.name, "user": name}}],
        "current-context": settings.name,
    }
    text = json.dumps(config, indent=1) + "\n"
    if path.exists() and path.read_text() == text:
        return
    fresh = path.with_name(f".{path.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.rename(path)
