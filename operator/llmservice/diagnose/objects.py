"""Faults of what a pod needs before any container starts: Secrets, volumes, a node that takes it."""

from __future__ import annotations

import re
from typing import Final

from llmservice.api.reasons import Reason
from llmservice.diagnose.finding import Evidence, Finding
from llmservice.diagnose.pod import Pod
from llmservice.workload.names import SECRET_SUFFIX
from llmservice.workload.volumes import CACHE_VOLUME, SOURCE_VOLUME

_MISSING_SECRET = re.compile(r'secret "(?P<name>[^"]+)" not found', re.IGNORECASE)
_MISSING_KEY = re.compile(r"couldn't find key (?P<key>\S+) in Secret (?P<name>\S+)", re.IGNORECASE)
_MISSING_CLAIM = re.compile(
    r'persistentvolumeclaim "(?P<name>[^"]+)" (?P<why>not found|is being deleted|bound to .+)', re.IGNORECASE
)
_UNBOUND_CLAIM = re.compile(r"unbound immediate PersistentVolumeClaims", re.IGNORECASE)
_MISSING_MAP = re.compile(r'configmap "(?P<name>[^"]+)" not found', re.IGNORECASE)
_MOUNT = re.compile(
    r'(?:MountVolume|AttachVolume)\.\w+ failed for volume "(?P<volume>[^"]+)"[^:]*: (?P<text>.+)', re.DOTALL
)
_ATTACHED = re.compile(r'Multi-Attach error for volume "(?P<volume>[^"]+)"')
_NO_FOLDER: Final = "hostPath type check failed"
_REMEDIES: Final = {
    SOURCE_VOLUME: ": put the model there on each node of the pool, or correct spec.model.source.hostPath.path",
    CACHE_VOLUME: ": the chart's DaemonSet of the nodes makes it (fleet.weightsCache.hostPath)",
}


def _waiting(pod: Pod) -> list[str]:
    """Why containers that were to be created are not."""
    return [container.waiting_message for container in pod.containers if container.waiting.startswith("Create")]


def _texts(evidence: Evidence) -> list[str]:
    """What the pod says now; and its events, until a container began: by then every volume is there."""
    containers, waiting = evidence.pod.containers, _waiting(evidence.pod)
    scheduled = evidence.pod.conditions.get("PodScheduled", {})
    begun = any(one.running_since or one.ended or one.ended_before for one in containers)
    return [*waiting, scheduled.get("message", ""), *(() if begun else evidence.events)]


def waits_for_secret(pod: Pod, name: str) -> bool:
    """Whether a container of the pod cannot be created for want of the Secret `name`, or of a key in it."""
    text = "\n".join(_waiting(pod))
    found = [*_MISSING_SECRET.finditer(text), *_MISSING_KEY.finditer(text)]
    return any(one["name"].rsplit("/", 1)[-1] == name for one in found)


def secret_missing(evidence: Evidence) -> Finding | None:
    """A Secret, or a key of one, that a container or a volume names is not there."""
    if evidence.pod.ready or evidence.pod.main is None or evidence.pod.main.running_since:
        return None
    text = "\n".join(_texts(evidence))
    key = _MISSING_KEY.search(text)
    if key is not None:
        name = key["name"].rsplit("/", 1)[-1]
        return Finding(
            Reason.SECRET_MISSING,
            f"Secret {name!r} has no key {key['key']!r}: add the key to the Secret, or name another one in the spec",
        )
    secret = _MISSING_SECRET.search(text)
    if secret is None:
        return None
    name = secret["name"].rsplit("/", 1)[-1]
    if name.endswith(SECRET_SUFFIX) and evidence.pod.name.startswith(name.removesuffix(SECRET_SUFFIX) + "-"):
        text = f"Secret {name!r}, which the operator writes, is gone: it is written again at once"
        return Finding(Reason.SECRET_MISSING, text, fault=False)
    return Finding(Reason.SECRET_MISSING, f"Secret {name!r} is not there: create it in the service's namespace")


def volume_missing(evidence: Evidence) -> Finding | None:
    """A volume cannot be mounted: a claim that is missing or unbound, or a mount that fails."""
    if evidence.pod.ready or evidence.pod.main is None or evidence.pod.main.running_since:
        return None
    texts = _texts(evidence)
    text = "\n".join(texts)
    claim = _MISSING_CLAIM.search(text)
    if claim is not None:
        return Finding(
            Reason.VOLUME_MISSING,
            f"PersistentVolumeClaim {claim['name']!r} {claim['why']}: create it in the service's namespace, or correct "
            "spec.model.source.pvc.claimName, spec.model.cache.claimName or the fleet's weightsCache.claimName",
        )
    if _UNBOUND_CLAIM.search(text):
        return Finding(
            Reason.VOLUME_MISSING,
            "a PersistentVolumeClaim is not bound to a volume: check its storage class with `kubectl get pvc`",
        )
    config = _MISSING_MAP.search(text)
    if config is not None:
        return Finding(Reason.VOLUME_MISSING, f"ConfigMap {config['name']!r} is not there yet; it is being written")
    attached = _ATTACHED.search(text)
    if attached is not None:
        return Finding(
            Reason.VOLUME_MISSING,
            f"volume {attached['volume']!r} is attached to another node, and may be to one alone: take a claim that "
            "several nodes may read (ReadOnlyMany or ReadWriteMany)",
        )
    mount = next((found for one in texts if (found := _MOUNT.search(one))), None)
    if mount is not None:
        said = " ".join(mount["text"].split())
        remedy = _REMEDIES.get(mount["volume"], "") if _NO_FOLDER in said else ""
        return Finding(Reason.VOLUME_MISSING, f"volume {mount['volume']!r} cannot be mounted: {said}{remedy}")
    return None


def rejected_by_node(evidence: Evidence) -> Finding | None:
    """The node refused or evicted the pod after it was scheduled."""
    pod = evidence.pod
    if pod.phase != "Failed" or not pod.reason:
        return None
    if pod.reason == "Evicted" and "memory" in pod.message.lower():
        return Finding(
            Reason.OUT_OF_MEMORY,
            f"the node ran out of memory and evicted the pod: raise spec.template.resources. It says: {pod.message}",
        )
    if pod.reason in {"UnexpectedAdmissionError", "OutOfnvidia.com/gpu"}:
        return Finding(
            Reason.WAITING_FOR_GPU,
            f"the node had no accelerator left for the pod; a new pod is tried. It says: {pod.message}",
        )
    return Finding(Reason.UNSCHEDULABLE, f"the node ended the pod ({pod.reason}): {pod.message}; a new pod is tried")
