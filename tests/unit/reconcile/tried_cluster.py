"""A cluster whose pods run with knobs, a tuner that tries changes on one of them, and everything that may go wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from llmservice.api.status import SignalsStatus
from llmservice.diagnose.pod import Pod
from llmservice.kube import resources
from llmservice.kube.errors import KubeError
from llmservice.reconcile.live import LiveResult
from llmservice.reconcile.tuner import Tuner
from llmservice.reconcile.work_queue import Key
from llmservice.repository.render import Repository, Role
from llmservice.signals.engine_start import EngineStart
from llmservice.signals.watch import Asked, Looked
from llmservice.tuning.measured import CanaryReport, PodReport, Signals, UnderWay, Validity
from tests.unit.reconcile.small_cluster import KEY, SmallCluster
from tests.unit.tuning.windows import blind, window

PODS = 4
RATE = 240.0
SPEC: dict[str, Any] = {
    "tuning": {"mode": "Auto"},
    "batching": {"mode": "Dynamic", "maxQueueDelay": "0ms", "maxSequences": 64},
    "objectives": {"latency": {"p99": "100ms"}},
    "scaling": {"minReplicas": PODS, "maxReplicas": 2 * PODS},
}
FAST = CanaryReport(3000, 10, 0, 9000, 30, 0)
SLOW = CanaryReport(3000, 300, 0, 9000, 30, 0)


class Death(Exception):  # noqa: N818 - it is no error of the program
    """The process is gone at once: nothing in it can catch this."""


@dataclass
class RunningPods:
    """Stands for every pod's Triton: what it runs, and how often it was made to run something else.

    The `deadly` call of those that change a pod ends the process, before or after its work.
    """

    running: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    refuses: str = ""
    deadly: int = 0
    after: bool = False
    calls: int = 0

    async def ensure(self, service: str, pods: tuple[Pod, ...], repository: Repository, token: str) -> LiveResult:
        wanted = configuration(repository)
        for pod in pods:
            if self.running.get(pod.name) == wanted:
                continue
            if pod.name == self.refuses:
                return LiveResult(failure=f"pod {pod.name}: it does not take it")
            self.calls += 1
            if self.calls == self.deadly and not self.after:
                raise Death
            self.running[pod.name] = wanted
            self.changed[pod.name] = self.changed.get(pod.name, 0) + 1
            if self.calls == self.deadly:
                raise Death
        return LiveResult()

    def forget(self, pods: set[str]) -> None:
        pass


class AskedOnly:
    """Stands for the watch of signals: keeps what it was asked to read."""

    def __init__(self) -> None:
        self.asked: Asked | None = None

    def watch(self, key: Key, asked: Asked | None) -> None:
        self.asked = asked

    def latest(self, key: Key) -> Looked | None:
        return None

    def engine_starts(self, key: Key) -> dict[str, EngineStart]:
        return {}


def configuration(repository: Repository) -> str:
    """What a pod runs with of what changes live."""
    return f"{repository.load_json(Role.GATE)}\n{repository.load_json(Role.ENGINE)}"


def delay_of(running: str) -> int:
    """Microseconds of the gate's delay."""
    gate = json.loads(running.partition("\n")[0])
    return int(gate["dynamic_batching"].get("max_queue_delay_microseconds", 0))


class TriedCluster(SmallCluster):
    """Pods have names of their own, start with the files of that moment, and are given windows by hand."""

    def __init__(self) -> None:
        self.pods_made = 0
        self.triton = RunningPods()
        self.watch = AskedOnly()
        super().__init__()
        self.user_applies(SPEC)

    def restart(self) -> None:
        super().restart()
        self.tuner = Tuner(self.fleet)
        self.watch = AskedOnly()
        self.loop.tuner, self.loop.live = self.tuner, self.triton
        self.loop.signals = self.watch  # type: ignore[assignment]

    def controllers_act(self) -> bool:
        moved = False
        for name in self.kube.names(resources.DEPLOYMENT, KEY[0]):
            deployment = self.kube.peek(resources.DEPLOYMENT, KEY[0], name)
            mine = sorted(pod for pod in self.pods() if pod.startswith(f"{name}-rs-"))
            wanted = deployment["spec"].get("replicas", 1)
            for _ in range(wanted - len(mine)):
                self.pods_made += 1
                pod = f"{name}-rs-{self.pods_made}"
                self.kube.put(self._pod(deployment, pod))
                self.triton.running[pod] = self.files(name)
                moved = True
            for pod in mine[wanted:]:
                self.kill(pod)
                moved = True
        return moved

    def kill(self, pod: str) -> None:
        self.remove(resources.POD, pod)
        self.triton.running.pop(pod, None)

    def files(self, revision: str) -> str:
        """What a pod of the revision starts with now."""
        data = self.kube.peek(resources.CONFIG_MAP, KEY[0], revision)["data"]
        return configuration(Repository.from_config_map_data(data))

    def window(self, told: CanaryReport | None = None, under_way: tuple[UnderWay, ...] = (), **measured: Any) -> None:
        """One window with what was asked for; `told` is what a canary did in it."""
        self.clock.elapsed += 30
        asked, now = self.watch.asked, self.clock.now().timestamp()
        if asked is None or not asked.targets:
            return
        pods = tuple(PodReport(name, Validity.FRESH, now - since) for name, since in asked.ready_since.items())
        signals = replace(
            window(RATE, asked.knobs, asked.replicas.ready),
            replicas=asked.replicas,
            pods=pods,
            under_way=(*asked.under_way, *under_way),
            canary=told if asked.canary else None,
            canary_knobs=asked.canary.knobs if asked.canary else None,
        )
        self.see(replace(signals, **measured), now)

    def blind_window(self) -> None:
        """A window of which nothing is known."""
        self.clock.elapsed += 30
        if self.watch.asked is not None:
            names = self.watch.asked.ready_since
            signals = blind(self.watch.asked.knobs)
            pods = tuple(PodReport(name, Validity.MISSING, 600.0) for name in names)
            self.see(replace(signals, pods=pods), self.clock.now().timestamp())

    def see(self, signals: Signals, now: float) -> None:
        self.tuner.decide(KEY, Looked(signals, SignalsStatus()), now)

    async def until_tried(self) -> str:
        """Windows until a replica tries something; its name."""
        await self.converge()
        for _ in range(12):
            self.window()
            await self.converge()
            if self.canary:
                return str(self.canary["replica"])
        raise AssertionError("nothing was tried")

    async def settle(self, told: CanaryReport | None = FAST) -> None:
        """A quiet world until no replica tries anything; a trial that waits for figures ends by its time."""
        for _ in range(130):
            await self.survive()
            if (self.memory.get("trial") or {}).get("stage") != "Canary":
                return
            self.window(told)
        raise AssertionError("a trial goes on for ever")

    async def survive(self) -> None:
        """Converges, with a new process wherever one died."""
        for _ in range(60):
            before = len(self.kube.journal.writes())
            calls = self.triton.calls
            try:
                await self.reconcile()
            except (Death, KubeError):
                self.restart()
                continue
            if not self.controllers_act() and (len(self.kube.journal.writes()), self.triton.calls) == (before, calls):
                return
        raise AssertionError("does not come to rest")

    @property
    def canary(self) -> dict[str, Any]:
        """What the status says of a canary."""
        found: dict[str, Any] = self.status().get("tuning", {}).get("canary") or {}
        return found

    @property
    def memory(self) -> dict[str, Any]:
        if f"{KEY[1]}-tuning" not in self.kube.names(resources.CONFIG_MAP, KEY[0]):
            return {}
        stored = self.kube.peek(resources.CONFIG_MAP, KEY[0], f"{KEY[1]}-tuning")
        found: dict[str, Any] = json.loads(stored["data"]["state.json"])
        return found

    def delays(self) -> dict[str, int]:
        """Microseconds by pod."""
        return {pod: delay_of(self.triton.running[pod]) for pod in self.pods()}

    def assert_all_alike(self) -> None:
        """Every pod runs with one set of knobs, which is that of the files, and nothing is tried any more."""
        (revision,) = self.kube.names(resources.DEPLOYMENT, KEY[0])
        assert self.pods()
        assert {self.triton.running[pod] for pod in self.pods()} == {self.files(revision)}
        assert not self.canary
        assert (self.memory.get("trial") or {}).get("stage") != "Canary"

    def assert_all_alike_in_knobs(self, delay_us: int) -> None:
        self.assert_all_alike()
        assert set(self.delays().values()) == {delay_us}
