"""The real node: containerd, kubelet, kube-proxy and CoreDNS as processes of this host."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from cluster import cgroups, network, pause, processes, store
from cluster.api import Api, healthy
from cluster.certificates import pki
from cluster.errors import ClusterError
from cluster.packages import find
from cluster.processes import Component
from cluster.settings import Settings
from cluster.shell import answer, tail

CNI_PROGRAMS = "/usr/lib/cni"
NODE_LABELS = "triton-llm.dev/pool=cpu"
NODE_SECONDS = 90.0


def runtime(settings: Settings) -> Component:
    """Containerd of our own, beside any other on the host."""
    config = settings.state / "containerd.toml"
    address = f"{settings.containerd_socket}"
    return Component(
        name="containerd",
        command=(find("containerd") or "containerd", "-c", str(config)),
        configuration=(config,),
        files={
            config: _containerd_config(settings),
            settings.state / "cni" / "10-bridge.conflist": json.dumps(_cni_config(settings), indent=1),
        },
        ready=lambda: _containerd_answers(address),
    )


def components(settings: Settings, ports: dict[str, int]) -> list[Component]:
    """What joins the node to the API server."""
    return [_kubelet(settings, ports), _proxy(settings, ports), _dns(settings, ports)]


def publish_dns(settings: Settings, api: Api) -> None:
    """The usual kube-dns Service in front of CoreDNS on the bridge, and what it may read."""
    ports = [{"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    service = {"spec": {"clusterIP": settings.dns_address, "ports": ports}}
    _apply(api, "v1", "Service", "services", "kube-dns", service)
    slice_body = {"addressType": "IPv4", "ports": ports, "endpoints": [{"addresses": [settings.gateway]}]}
    _apply(api, "discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "kube-dns", slice_body)
    resources = ["services", "endpoints", "pods", "namespaces"]
    rules = [
        {"apiGroups": [""], "resources": resources, "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "name": "system:coredns", "apiGroup": group}
    role = {"kind": "ClusterRole", "name": "system:coredns", "apiGroup": group}
    _apply(api, f"{group}/v1", "ClusterRole", "clusterroles", "system:coredns", {"rules": rules})
    binding = {"roleRef": role, "subjects": [subject]}
    _apply(api, f"{group}/v1", "ClusterRoleBinding", "clusterrolebindings", "system:coredns", binding)


def provide_pause_image(settings: Settings) -> None:
    """The sandbox image, without which no pod starts."""
    if pause.IMAGE not in store.images(settings):
        store.import_archive(settings, pause.archive(settings))


def wait_ready(settings: Settings, api: Api) -> None:
    """Return once the node is Ready; raises ClusterError with the kubelet's own message."""
    deadline = time.monotonic() + NODE_SECONDS
    message = "it has not registered itself"
    while time.monotonic() < deadline:
        found = api.get(f"/api/v1/nodes/{settings.node}")
        conditions = found["status"].get("conditions", []) if found else []
        ready = next((item for item in conditions if item["type"] == "Ready"), None)
        if ready and ready["status"] == "True":
            return
        message = ready["message"] if ready else message
        time.sleep(processes.POLL_SECONDS)
    path = processes.log(settings, "kubelet")
    raise ClusterError(f"node {settings.node} is not Ready: {message}; {path} ends with:\n{tail(path)}")


def _kubelet(settings: Settings, ports: dict[str, int]) -> Component:
    config = settings.state / "kubelet.json"
    kubeconfig = pki(settings) / "kubelet.kubeconfig"
    return Component(
        name="kubelet",
        command=(
            str(settings.bin / "kubelet"),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            f"--root-dir={settings.state / 'kubelet'}",
            f"--cert-dir={pki(settings)}",
            f"--hostname-override={settings.node}",
            f"--node-ip={settings.gateway}",
            f"--node-labels={NODE_LABELS}",
        ),
        configuration=(config, kubeconfig),
        files={config: json.dumps(_kubelet_config(settings, ports), indent=1)},
        ready=lambda: healthy(f"http://127.0.0.1:{ports['kubelet-health']}/healthz"),
    )


def _kubelet_config(settings: Settings, ports: dict[str, int]) -> dict[str, Any]:
    folder = pki(settings)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": settings.gateway,
        "port": ports["kubelet"],
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": ports["kubelet-health"],
        "authentication": {
            "x509": {"clientCAFile": str(folder / "ca.crt")},
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(folder / "kubelet.crt"),
        "tlsPrivateKeyFile": str(folder / "kubelet.key"),
        "containerRuntimeEndpoint": f"unix://{settings.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.ensure_root(settings),
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # lowering it takes CAP_SYS_RESOURCE, which a container may lack
        "clusterDNS": [settings.dns_address],
        "clusterDomain": "cluster.local",
        "podLogsDir": str(settings.state / "pod-logs"),
        "volumePluginDir": str(settings.state / "volume-plugins"),
        "syncFrequency": "10s",  # a changed ConfigMap reaches its pods within this
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "100Mi"},
    }


def _proxy(settings: Settings, ports: dict[str, int]) -> Component:
    """NodePorts answer on this host's own addresses only, 127.0.0.1 among them."""
    config = settings.state / "kube-proxy.json"
    kubeconfig = pki(settings) / "kube-proxy.kubeconfig"
    body = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": settings.node,
        "clusterCIDR": str(settings.pod_network),
        "nodePortAddresses": ["127.0.0.0/8", f"{settings.gateway}/32"],
        "healthzBindAddress": f"127.0.0.1:{ports['proxy-health']}",
        "metricsBindAddress": f"127.0.0.1:{ports['proxy-metrics']}",
        "oomScoreAdj": 0,
        "conntrack": {"maxPerCore": 0},
        "iptables": {"masqueradeAll": not network.bridged_traffic_is_filtered(), "minSyncPeriod": "100ms"},
    }
    return Component(
        name="kube-proxy",
        command=(str(settings.bin / "kube-proxy"), f"--config={config}"),
        configuration=(config, kubeconfig),
        files={config: json.dumps(body, indent=1)},
        ready=lambda: healthy(f"http://127.0.0.1:{ports['proxy-health']}/livez"),
    )


def _dns(settings: Settings, ports: dict[str, int]) -> Component:
    config = settings.state / "Corefile"
    kubeconfig = pki(settings) / "coredns.kubeconfig"
    # Each directive has a line of its own: the format knows no separators.
    lines = [
        ".:53 {",
        f"  bind {settings.gateway}",
        f"  health 127.0.0.1:{ports['dns-health']}",
        "  errors",
        "  kubernetes cluster.local in-addr.arpa {",
        f"    kubeconfig {kubeconfig} {settings.name}",
        "    fallthrough in-addr.arpa",
        "  }",
        "  forward . /etc/resolv.conf",
        "  cache 5",
        "}",
        "",
    ]
    return Component(
        name="coredns",
        command=(str(settings.bin / "coredns"), "-conf", str(config)),
        configuration=(config, kubeconfig),
        files={config: "\n".join(lines)},
        ready=lambda: healthy(f"http://127.0.0.1:{ports['dns-health']}/health"),
    )


def _containerd_config(settings: Settings) -> str:
    """TOML text. Without CAP_SYS_RESOURCE runc cannot lower the sandbox's OOM score: restrict_oom_score_adj."""
    snapshotter = "native" if _on_overlay(settings.state) else "overlayfs"
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{settings.state}/containerd/root"
state = "{settings.state}/containerd/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{settings.containerd_socket}"
[ttrpc]
  address = "{settings.containerd_socket}.ttrpc"
[{cri}]
  sandbox_image = "{pause.IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  [{cri}.cni]
    bin_dir = "{CNI_PROGRAMS}"
    conf_dir = "{settings.state}/cni"
  [{cri}.containerd]
    snapshotter = "{snapshotter}"
    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{cri}.containerd.runtimes.runc.options]
        BinaryName = "{find("runc") or "runc"}"
        Root = "{settings.state}/runc"
        SystemdCgroup = false
"""


def _cni_config(settings: Settings) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": str(settings.state / "cni-addresses"),
        "ranges": [[{"subnet": str(settings.pod_network)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": settings.bridge, "isGateway": True, "hairpinMode": True, "ipam": addresses}
    mapping = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": settings.name, "plugins": [bridge, mapping]}


def _on_overlay(folder: Path) -> bool:
    """Whether a folder lies on an overlay file system, on which overlayfs cannot stack (a container's root)."""
    return answer(["stat", "--file-system", "--format=%T", folder]).strip() == "overlayfs"


def _containerd_answers(address: str) -> bool:
    try:
        answer(["ctr", "--address", address, "--timeout", "2s", "version"])
    except ClusterError:
        return False
    return True


def _apply(api: Api, version: str, kind: str, plural: str, name: str, body: dict[str, Any]) -> None:
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    metadata: dict[str, Any] = {"name": name}
    if not kind.startswith("Cluster"):
        metadata["namespace"] = "kube-system"
        root += "/namespaces/kube-system"
    if kind == "EndpointSlice":
        metadata["labels"] = {"kubernetes.io/service-name": name}
    api.apply(f"{root}/{plural}/{name}", {"apiVersion": version, "kind": kind, "metadata": metadata, **body})
