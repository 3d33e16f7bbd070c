"""The Kubernetes resources that the operator reads or writes, and where the API server keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from llmservice.api import service as api

Manifest = dict[str, Any]
"""A Kubernetes object as the API server's JSON has it."""

Manifests = list[Manifest]
"""Objects, for signatures inside classes that have a method `list`."""


@dataclass(frozen=True, order=True)
class Resource:
    """One resource of the API server; `group` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`apiVersion` of its manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def version_path(self) -> str:
        """Where the API server lists the resources of this group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The URL path of a collection (no name), of an object, or of its subresource."""
        parts = [self.version_path]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            if self.namespaced and not namespace:
                msg = f"{self.kind} {name!r} lives in a namespace: name it"
                raise ValueError(msg)
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def key(self, manifest: Mapping[str, Any]) -> tuple[str | None, str]:
        """Namespace (None when cluster-wide) and name of a manifest of this resource."""
        metadata = manifest["metadata"]
        return (metadata.get("namespace") if self.namespaced else None), metadata["name"]

    @staticmethod
    def of(manifest: Mapping[str, Any]) -> Resource:
        """The resource a manifest belongs to. Raises LookupError for a kind the operator does not know."""
        found = _BY_KIND.get((manifest["apiVersion"], manifest["kind"]))
        if found is None:
            msg = (
                f"no resource is known for {manifest['apiVersion']}, kind {manifest['kind']}: add it to kube/resources"
            )
            raise LookupError(msg)
        return found


LLM_SERVICE: Final = Resource(api.GROUP, api.VERSION, "LLMService", api.PLURAL)
DEPLOYMENT: Final = Resource("apps", "v1", "Deployment", "deployments")
CONFIG_MAP: Final = Resource("", "v1", "ConfigMap", "configmaps")
SERVICE: Final = Resource("", "v1", "Service", "services")
SECRET: Final = Resource("", "v1", "Secret", "secrets")
SERVICE_ACCOUNT: Final = Resource("", "v1", "ServiceAccount", "serviceaccounts")
POD: Final = Resource("", "v1", "Pod", "pods")
EVENT: Final = Resource("", "v1", "Event", "events")
PERSISTENT_VOLUME_CLAIM: Final = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NAMESPACE: Final = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
POD_DISRUPTION_BUDGET: Final = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY: Final = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
HORIZONTAL_POD_AUTOSCALER: Final = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
RESOURCE_CLAIM_TEMPLATE: Final = Resource("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates")
RESOURCE_CLAIM: Final = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
DEVICE_CLASS: Final = Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_SLICE: Final = Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False)
NODE: Final = Resource("", "v1", "Node", "nodes", namespaced=False)
LEASE: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases")
CUSTOM_RESOURCE_DEFINITION: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
LEADER_WORKER_SET: Final = Resource("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
POD_MONITOR: Final = Resource("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")
SCALED_OBJECT: Final = Resource("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")

ALL: Final[tuple[Resource, ...]] = (
    LLM_SERVICE,
    DEPLOYMENT,
    CONFIG_MAP,
    SERVICE,
    SECRET,
    SERVICE_ACCOUNT,
    POD,
    EVENT,
    PERSISTENT_VOLUME_CLAIM,
    NAMESPACE,
    POD_DISRUPTION_BUDGET,
    NETWORK_POLICY,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    DEVICE_CLASS,
    NODE,
    HORIZONTAL_POD_AUTOSCALER,
    LEASE,
    CUSTOM_RESOURCE_DEFINITION,
    LEADER_WORKER_SET,
    POD_MONITOR,
    SCALED_OBJECT,
)

_BY_KIND: Final = {(resource.api_version, resource.kind): resource for resource in ALL}
