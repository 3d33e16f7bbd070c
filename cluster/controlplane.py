"""The control plane: etcd, API server, controller manager, scheduler, and kwok for simulated nodes."""

from __future__ import annotations

from cluster.api import Api, healthy
from cluster.certificates import pki
from cluster.processes import Component
from cluster.settings import Settings


def storage(settings: Settings, ports: dict[str, int]) -> Component:
    """Etcd without waiting for the disk: nothing here must survive a power cut."""
    client, peer = (f"http://127.0.0.1:{ports[name]}" for name in ("etcd", "etcd-peer"))
    return Component(
        name="etcd",
        command=(
            str(settings.bin / "etcd"),
            f"--data-dir={settings.state / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--auto-compaction-mode=revision",
            "--auto-compaction-retention=5000",
            "--log-level=warn",
        ),
        ready=lambda: healthy(f"{client}/readyz"),
    )


def api_server(settings: Settings, ports: dict[str, int], address: str) -> Component:
    """The API server; it listens on the bridge's address only, where the host and the pods reach it."""
    folder = pki(settings)
    return Component(
        name="kube-apiserver",
        command=(
            str(settings.bin / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{ports['etcd']}",
            f"--bind-address={address}",
            f"--secure-port={ports['api']}",
            f"--advertise-address={settings.gateway}",
            f"--tls-cert-file={folder / 'kube-apiserver.crt'}",
            f"--tls-private-key-file={folder / 'kube-apiserver.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--service-account-key-file={folder / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={settings.service_network}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={folder / 'ca.crt'}",
            f"--kubelet-client-certificate={folder / 'kube-apiserver-kubelet.crt'}",
            f"--kubelet-client-key={folder / 'kube-apiserver-kubelet.key'}",
            # Aggregated APIs, metrics adapters among them, trust the API server by these.
            f"--requestheader-client-ca-file={folder / 'ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={folder / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={folder / 'front-proxy-client.key'}",
            f"--cert-dir={folder}",
            "--profiling=false",
            "--feature-gates=ImageVolume=true",  # on by default since 1.35
        ),
        ready=lambda: Api(settings, address, ports["api"]).ready(),
        seconds=120.0,
    )


def controllers(settings: Settings, ports: dict[str, int]) -> list[Component]:
    """What needs a ready API server."""
    return [_controller_manager(settings, ports), _scheduler(settings, ports), _kwok(settings, ports)]


def _controller_manager(settings: Settings, ports: dict[str, int]) -> Component:
    folder, port = pki(settings), ports["controller-manager"]
    config = folder / "kube-controller-manager.kubeconfig"
    return Component(
        name="kube-controller-manager",
        command=(
            str(settings.bin / "kube-controller-manager"),
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            f"--service-account-private-key-file={folder / 'service-accounts.key'}",
            f"--root-ca-file={folder / 'ca.crt'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder}",
            "--concurrent-gc-syncs=5",
            "--profiling=false",
        ),
        configuration=(config,),
        ready=lambda: healthy(f"https://127.0.0.1:{port}/healthz"),
    )


def _scheduler(settings: Settings, ports: dict[str, int]) -> Component:
    port = ports["scheduler"]
    config = pki(settings) / "kube-scheduler.kubeconfig"
    return Component(
        name="kube-scheduler",
        command=(
            str(settings.bin / "kube-scheduler"),
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={pki(settings)}",
            "--profiling=false",
        ),
        configuration=(config,),
        ready=lambda: healthy(f"https://127.0.0.1:{port}/healthz"),
    )


def _kwok(settings: Settings, ports: dict[str, int]) -> Component:
    port = ports["kwok"]
    return Component(
        name="kwok",
        command=(
            str(settings.bin / "kwok"),
            f"--kubeconfig={settings.kubeconfig}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{port}",
        ),
        configuration=(settings.kubeconfig,),
        ready=lambda: healthy(f"http://127.0.0.1:{port}/healthz"),
    )
