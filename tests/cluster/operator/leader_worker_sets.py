"""What stands for LeaderWorkerSet in these tests: a CRD with the fields that the operator uses, and its controller.

The CRD is ours, in the group and with the names of kubernetes-sigs/lws. The controller is played step by step: as in
lws, leaders come from a StatefulSet of the set's name, and each leader owns a StatefulSet with its workers.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tests.cluster_fixtures import Kubectl, wait_established

NAME: Final = "leaderworkersets.leaderworkerset.x-k8s.io"
_INTEGER: Final = {"type": "integer", "format": "int32"}
_TEMPLATE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SPEC: Final = {
    "type": "object",
    "required": ["leaderWorkerTemplate"],
    "properties": {
        "replicas": {**_INTEGER, "default": 1, "minimum": 0},
        "startupPolicy": {"type": "string", "enum": ["LeaderCreated", "LeaderReady"], "default": "LeaderCreated"},
        "leaderWorkerTemplate": {
            "type": "object",
            "required": ["workerTemplate"],
            "properties": {
                "size": {**_INTEGER, "default": 1},
                "restartPolicy": {
                    "type": "string",
                    "enum": ["Default", "RecreateGroupOnPodRestart", "None"],
                    "default": "RecreateGroupOnPodRestart",
                },
                "leaderTemplate": _TEMPLATE,
                "workerTemplate": _TEMPLATE,
            },
        },
    },
}
CRD: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": "leaderworkerset.x-k8s.io",
        "scope": "Namespaced",
        "names": {
            "kind": "LeaderWorkerSet",
            "listKind": "LeaderWorkerSetList",
            "plural": "leaderworkersets",
            "singular": "leaderworkerset",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _SPEC, "status": _TEMPLATE},
                    }
                },
            }
        ],
    },
}


def install(kubectl: Kubectl) -> None:
    """The CRD, served."""
    kubectl("apply", "--server-side", "-f", "-", text=json.dumps(CRD))
    wait_established(kubectl, NAME, "LeaderWorkerSet")


def uninstall(kubectl: Kubectl) -> None:
    """No CRD, whether or not there was one."""
    kubectl("delete", "crd", NAME, "--ignore-not-found", "--timeout=60s")


def make_leader(kubectl: Kubectl, found: dict[str, Any]) -> None:
    """The StatefulSet of the set's leaders, with one: that of its workers is another's (`make_workers`)."""
    metadata, template = found["metadata"], found["spec"]["leaderWorkerTemplate"]
    owner = {"apiVersion": found["apiVersion"], "kind": found["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    place = metadata["namespace"]
    _apply(kubectl, place, metadata["name"], owner, template["leaderTemplate"], 1, 0)


def make_workers(kubectl: Kubectl, found: dict[str, Any], leader: dict[str, Any]) -> None:
    """The StatefulSet of the leader's workers."""
    template, metadata = found["spec"]["leaderWorkerTemplate"], leader["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    workers = template["size"] - 1
    _apply(kubectl, metadata["namespace"], metadata["name"], owner, template["workerTemplate"], workers, 1)


def _apply(
    kubectl: Kubectl,
    namespace: str,
    name: str,
    owner: dict[str, str],
    template: dict[str, Any],
    replicas: int,
    first: int,
) -> None:
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "serviceName": name,
            "ordinals": {"start": first},
            "selector": {"matchLabels": template["metadata"]["labels"]},
            "template": template,
        },
    }
    kubectl("apply", "--server-side", "-f", "-", text=json.dumps(stateful_set))
