"""Live knobs: what running pods can take without being replaced is brought to them, one pod at a time.

What a pod runs with is asked of its Triton, not remembered: a container that restarted inside its pod finds the old
files and has to be told again, so the restart count is part of what was confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from llmservice.diagnose.pod import Pod
from llmservice.reconcile.apply import NotLeadingError
from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.repository.render import Repository, Role
from llmservice.signals.scrape import Sample, ScrapeError
from llmservice.triton.client import TritonClient
from llmservice.triton.errors import TritonError
from llmservice.triton.live import GateReloader, LiveChange, LiveChangeError, Outcome, set_engine_instances, set_slots
from llmservice.workload.names import GRPC_PORT, HTTP_PORT, METRICS_PORT

PATIENCE_SECONDS: Final = 300.0
"""How long an older gate may drain before the next reload goes on beside it. On tritonserver 2.51 a stream cancelled at
the moment of its last response can keep a gate for ever (3 of 12 such cancels): waiting for it would end all tuning."""

MOST_GATES: Final = 3
"""Gates of one replica beyond which nothing is loaded any more, however long it waited: each costs two processes."""

Confirmed = tuple[int, str]
"""Restart count of the Triton container, and the configuration it was seen to run with."""


@dataclass(frozen=True)
class LiveResult:
    """What came of one round, in words: what failed, or what a pod is waiting for; both empty when all is as wanted."""

    failure: str = ""
    waiting: str = ""
    changes: tuple[LiveChange, ...] = ()


class LiveChanges(Protocol):
    """Brings live knobs to pods."""

    async def ensure(self, service: str, pods: tuple[Pod, ...], repository: Repository, token: str) -> LiveResult:
        """Makes every pod run with what changes live in `repository`; stops at the first that does not take it."""
        ...

    def forget(self, pods: set[str]) -> None:
        """Drops what is remembered of pods by uid."""
        ...


ReadSample = Callable[[str, str], Awaitable[Sample]]


@dataclass
class TritonLiveChanges:
    """Live changes over gRPC, the only way that breaks no stream. `may_write` is asked before each pod's."""

    read: ReadSample
    may_write: Callable[[], bool] = lambda: True
    connect: Callable[[str, str], TritonClient] = TritonClient
    clock: Callable[[], float] = time.monotonic
    confirmed: dict[str, Confirmed] = field(default_factory=dict)
    waiting_since: dict[str, float] = field(default_factory=dict)

    async def ensure(self, service: str, pods: tuple[Pod, ...], repository: Repository, token: str) -> LiveResult:
        """See `LiveChanges`. Raises NotLeadingError once another process may change these pods."""
        wanted = f"{repository.load_json(Role.GATE)}\n{repository.load_json(Role.ENGINE)}"
        changes: list[LiveChange] = []
        for pod in pods:
            mark = (pod.restarts, wanted)
            if self.confirmed.get(pod.uid) == mark:
                continue
            if not self.may_write():
                raise NotLeadingError(f"leadership was lost before the live change of pod {pod.name}")
            try:
                done = await self._bring(service, pod, repository, token)
            except (LiveChangeError, TritonError) as error:
                return LiveResult(failure=f"pod {pod.name}: {error}", changes=tuple(changes))
            changes += done
            deferred = [change.reason for change in done if change.outcome is Outcome.DEFERRED]
            if deferred:
                return LiveResult(waiting=f"pod {pod.name}: {deferred[0]}", changes=tuple(changes))
            self.confirmed[pod.uid] = mark
            self.waiting_since.pop(pod.uid, None)
        return LiveResult(changes=tuple(changes))

    def forget(self, pods: set[str]) -> None:
        """See `LiveChanges`."""
        for uid in pods:
            self.confirmed.pop(uid, None)
            self.waiting_since.pop(uid, None)

    async def _bring(self, service: str, pod: Pod, repository: Repository, token: str) -> list[LiveChange]:
        engine = repository.config(Role.ENGINE)
        async with self.connect(f"{_host(pod)}:{GRPC_PORT}", token) as client:
            reloader = GateReloader(client, lambda: self._old_gate_gone(service, pod))
            gate = await reloader.reload(repository.config(Role.GATE))
            count = sum(group.count for group in engine.instance_group)
            instances = await set_engine_instances(client, engine, count)
            return [gate, instances, await set_slots(client, engine)]

    async def _old_gate_gone(self, service: str, pod: Pod) -> bool:
        """Whether only one gate's processes export, or an older one has drained for longer than anyone waits.

        A pod whose metrics cannot be read is not known to be free.
        """
        try:
            sample = await self.read(metrics_url(pod), service)
        except ScrapeError:
            return False
        if sample.gate_processes <= GATE_INSTANCES:
            return True
        waited = self.clock() - self.waiting_since.setdefault(pod.uid, self.clock())
        return waited >= PATIENCE_SECONDS and sample.gate_processes < GATE_INSTANCES * MOST_GATES


def metrics_url(pod: Pod) -> str:
    """Where a pod's metrics are."""
    return f"http://{_host(pod)}:{METRICS_PORT}/metrics"


def statistics_url(pod: Pod, model: str) -> str:
    """Where Triton's statistics of a model of the pod are."""
    return f"http://{_host(pod)}:{HTTP_PORT}/v2/models/{model}/stats"


def _host(pod: Pod) -> str:
    """The pod's address as it stands before a port."""
    return f"[{pod.ip}]" if ":" in pod.ip else pod.ip
