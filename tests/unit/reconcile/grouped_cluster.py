"""A small cluster with the controller of LeaderWorkerSets: a group of pods for each replica."""

from __future__ import annotations

from typing import Any

from llmservice.api.fleet import FleetDefaults
from llmservice.kube import resources
from llmservice.kube.events import EventType, Recorder
from llmservice.kube.resources import Manifest
from tests.unit.reconcile.small_cluster import KEY, SmallCluster, pod, ready_status, unschedulable_status

ON_TWO_NODES: dict[str, Any] = {
    "model": {"source": {"huggingFace": {"repo": "example/unknown", "revision": "a" * 40}}},
    "engine": {"backend": "vllm", "parallelism": {"tensor": 8, "pipeline": 2, "nodes": 2}},
    "placement": {"pool": "big"},
}
FLEET = FleetDefaults.model_validate({"pools": {"big": {"accelerator": "a100-80gb"}, "cpu": {}}})


class GroupedCluster(SmallCluster):
    """Plays the controller as kubernetes-sigs/lws does it: leaders of one StatefulSet, workers of one for each leader.

    `workers_wait`: no node takes the workers, and leaders then stay without an engine. `refused`: in what words no
    more pods are let in.
    """

    def __init__(self) -> None:
        super().__init__(FLEET)
        self.workers_wait = False
        self.refused = ""

    def sets(self) -> list[str]:
        return self.kube.names(resources.LEADER_WORKER_SET, KEY[0])

    def controllers_act(self) -> bool:
        moved = super().controllers_act()
        for name in self.sets():
            found = self.kube.peek(resources.LEADER_WORKER_SET, KEY[0], name)
            template, wanted = found["spec"]["leaderWorkerTemplate"], found["spec"].get("replicas", 1)
            pods = {}
            for group in range(wanted):
                leader = f"{name}-{group}"
                pods[leader] = _pod(leader, name, template["leaderTemplate"], self._status(leads=True))
                for index in range(1, template["size"]):
                    worker = f"{leader}-{index}"
                    pods[worker] = _pod(worker, leader, template["workerTemplate"], self._status(leads=False))
            there = [one for one in self.pods() if one.startswith(f"{name}-")]
            leaving = set(there) - pods.keys()
            for one in leaving:
                if one.rpartition("-")[0] not in leaving:  # workers go once their leader is gone
                    self.remove(resources.POD, one)
            missing = sorted(pods.keys() - set(there))
            for one in missing:
                if self.refused:
                    self.tells("StatefulSet", one.rpartition("-")[0], "FailedCreate", self.refused)
                else:
                    self.kube.put(pods[one])
            moved = moved or bool(leaving) or (bool(missing) and not self.refused)
        return moved

    def tells(self, kind: str, name: str, reason: str, message: str, at: str = "") -> None:
        """A controller tells of an object of its own, through events.k8s.io where `at` is when."""
        about = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": KEY[0], "uid": name}}
        recorder = Recorder(self.kube, clock=self.clock)
        event = recorder.render(about, reason=reason, message=message, kind=EventType.WARNING)
        self.kube.put(event | {"eventTime": at, "firstTimestamp": None, "lastTimestamp": None} if at else event)

    def _status(self, *, leads: bool) -> Manifest:
        if self.workers_wait and not leads:
            return unschedulable_status("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
        status = ready_status(self.clock.now())
        if not leads:
            status["containerStatuses"][0]["name"] = "worker"
        if self.workers_wait:
            status["conditions"][-1]["status"] = "False"
            status["containerStatuses"][0]["ready"] = False
        return status


def _pod(name: str, stateful_set: str, template: Manifest, status: Manifest) -> Manifest:
    return pod(name, {"kind": "StatefulSet", "name": stateful_set, "uid": "s"}, template, status)
