"""One pass of the loop over one service: observe, decide, apply, report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.api.reasons import Reason
from llmservice.api.status import SignalsStatus
from llmservice.diagnose.finding import Finding
from llmservice.diagnose.objects import waits_for_secret
from llmservice.kube import resources
from llmservice.kube.client import KubeClient
from llmservice.kube.clock import Clock
from llmservice.kube.errors import Conflict, Forbidden, NotFound
from llmservice.kube.events import EventType, Recorder
from llmservice.kube.resources import Manifest
from llmservice.reconcile.apply import Applier, NotLeadingError
from llmservice.reconcile.bring import bring
from llmservice.reconcile.decide import LATER, SOON, Decision, decide
from llmservice.reconcile.fleet_view import FleetView
from llmservice.reconcile.informed_plan import Shown
from llmservice.reconcile.intent import Blocked, Intent, intend
from llmservice.reconcile.live import LiveChanges
from llmservice.reconcile.log_context import about, note_generation
from llmservice.reconcile.observe import (
    namespace_terminating,
    observe,
    observe_groups,
    observe_strangers,
    observe_troubles,
)
from llmservice.reconcile.pool_of import as_seen, pool_name, see_pool_of
from llmservice.reconcile.quota import Quotas
from llmservice.reconcile.report import Report, differs, report, report_blindness, status_manifest
from llmservice.reconcile.tell import Told, tell
from llmservice.reconcile.tuner import Tuner
from llmservice.reconcile.tuning_frame import asked_of
from llmservice.reconcile.weights_seen import inspected_model
from llmservice.reconcile.work_queue import Key
from llmservice.reconcile.world import World
from llmservice.signals.watch import SignalsWatch
from llmservice.triton.live import Outcome
from llmservice.workload.names import SECRET_SUFFIX
from llmservice.workload.pinning import LiveRevision
from llmservice.workload.secret import token

RETRY_LIVE: Final = timedelta(seconds=15)
"""After a live change that did not take."""
WAITING_LIVE: Final = timedelta(seconds=2)
"""While an older gate still serves its streams: to look costs one page of metrics."""

log = logging.getLogger(__name__)


@dataclass
class Reconciler:
    """Runs passes. What it remembers only saves work: a new process starts with nothing and decides the same."""

    client: KubeClient
    fleet: FleetDefaults
    operator_key: bytes
    clock: Clock
    recorder: Recorder
    live: LiveChanges
    may_write: Callable[[], bool] = lambda: True
    signals: SignalsWatch | None = None
    tuner: Tuner | None = None
    fleet_view: FleetView | None = None
    ready: dict[Key, bool] = field(default_factory=dict)
    """Whether each known service has a replica that answers, for the metrics."""
    _applier: Applier = field(init=False)
    _quotas: Quotas = field(init=False)
    _seen: dict[Key, tuple[str, int, frozenset[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._applier = Applier(self.client, self.may_write)
        self._quotas = Quotas(self.fleet)

    async def reconcile(self, key: Key) -> timedelta | None:
        """One pass. Answers when to look again unasked; raises what the queue shall retry."""
        with about(key):
            try:
                return await self._pass(key)
            except NotLeadingError:
                log.warning("pass ended: not leading any more")
                return None

    async def _pass(self, key: Key) -> timedelta | None:
        try:
            world = await observe(self.client, key)
        except Forbidden as error:
            return await self._report_blindness(key, error)
        if world.service is None:
            self._forget(key)
            return None
        note_generation(world.generation)
        if self._is_stale(world):
            return SOON
        world = await see_pool_of(world, self.fleet, self.fleet_view)
        world = replace(world, claimants=await self._quotas.claimants(self.client, key, world.service or {}))
        intent = self._intend(world)
        if self.tuner is not None and isinstance(intent, Intent) and self.tuner.follow(world, intent):
            intent = self._intend(world)
        if isinstance(intent, Intent):
            world = await observe_strangers(self.client, world, intent.workload.manifests)
        world = await observe_groups(self.client, await observe_troubles(self.client, world))
        world = replace(world, written=self._written(world))
        memory = self.tuner.memory(key) if self.tuner else None
        decision = await self._act(world, intent, decide(world, intent, memory))
        await self._report(world, intent, decision)
        return _next(decision)

    def _intend(self, world: World) -> Intent | Blocked:
        assert world.service is not None  # noqa: S101 - checked by the caller
        maps = world.of(resources.CONFIG_MAP)
        live = [LiveRevision(keeper, maps.get(name)) for name, keeper in world.keepers.items()]
        known = (world.key, world.uid, world.generation)
        tuned = self.tuner.knobs(*known) if self.tuner else None
        trying = partial(self.tuner.canary, *known) if self.tuner else _nobody
        seen = self.fleet if world.pool is None else as_seen(self.fleet, world)
        shown = Shown(partial(inspected_model, world), serving=any(pod.ready for pod in world.pods))
        pool = pool_name(world.service)
        share = self._quotas.share(world.key, pool, world.claimants)
        intent = intend(
            world.service,
            self.fleet,
            self.operator_key,
            live,
            tuned,
            seen=seen,
            share=share,
            shown=shown,
            trying=trying,
        )
        if isinstance(intent, Intent) and share is not None:
            self._quotas.note(world.key, pool, intent.knobs.replicas * intent.plan.accelerators_per_replica)
        else:
            self._quotas.forget(world.key)
        return intent

    def _written(self, world: World) -> Mapping[str, Manifest]:
        """The Secrets as applied last; none once a pod waits for its Secret, which somebody must have deleted."""
        secret = f"{world.key[1]}{SECRET_SUFFIX}"
        lost = any(waits_for_secret(pod, secret) for pod in world.pods)
        return {} if lost else self._applier.written.get(world.uid, {})

    async def _act(self, world: World, intent: Intent | Blocked, decision: Decision) -> Decision:
        """Carries the decision out; what stood in the way is part of the decision that comes back."""
        if decision.changes:
            if await namespace_terminating(self.client, world.key[0]):
                text = "the namespace is being deleted, and the service goes with it"
                return Decision(blocked=Finding(Reason.NAMESPACE_TERMINATING, text))
            refused = await self._applier.apply(world, decision)
            if refused is not None:
                return replace(decision, blocked=refused, requeue_after=LATER)
        if not isinstance(intent, Intent) or not decision.live or decision.blocked:
            return decision
        return await self._bring_live(world, intent, decision)

    async def _bring_live(self, world: World, intent: Intent, decision: Decision) -> Decision:
        current = intent.workload.revision
        pods = tuple(pod for pod in world.pods if pod.ready and pod.ip and pod.revision == current)
        if not pods:
            return decision
        self._applier.fence()
        secret = token(self.operator_key, intent.service)
        result = await bring(self.live, world.key[1], pods, intent, secret)
        for change in result.changes:
            if change.outcome is Outcome.APPLIED:
                log.info("live change of %s: %s in %.1f s", change.model, change.reason, change.seconds)
        again = RETRY_LIVE if result.failure else WAITING_LIVE if result.waiting else None
        return replace(decision, live_failure=result.failure, live_waiting=result.waiting, live_again=again)

    async def _report(self, world: World, intent: Intent | Blocked, decision: Decision) -> None:
        figures = self._watch_signals(world, intent, decision)
        tuned = self.tuner.seen(world.key) if self.tuner else None
        engines = self.signals.engine_starts(world.key) if self.signals else {}
        written = report(world, intent, decision, figures, self.clock.now(), tuned, engines)
        self.ready[world.key] = (written.status.ready_replicas or 0) > 0
        await self._write_status(world, written)

    async def _write_status(self, world: World, written: Report) -> None:
        """Writes the status last, and only when it says something new; then tells what changed."""
        if not differs(written.status, world):
            return
        self._applier.fence()
        try:
            await self.client.apply_status(status_manifest(world, written.status))
        except (NotFound, Conflict):
            log.info("the service is gone before its status was written")
            return
        assert world.service is not None  # noqa: S101 - a status was made of it
        tuned = self.tuner.told(world.key) if self.tuner else ""
        events = [Told(Reason.TUNED.value, tuned, EventType.NORMAL)] if tuned else []
        for told in [*tell(written.transitions), *events]:
            await self.recorder.record(world.service, reason=told.reason, message=told.message, kind=told.kind)

    async def _report_blindness(self, key: Key, error: Forbidden) -> timedelta:
        """What can still be said when the operator may not read the children: that it knows nothing, and why."""
        service = await self.client.get(resources.LLM_SERVICE, *key)
        if service is None:
            self._forget(key)
            return LATER
        world = World(key, service=service)
        await self._write_status(world, report_blindness(world, error, self.clock.now()))
        return LATER

    def _watch_signals(self, world: World, intent: Intent | Blocked, decision: Decision) -> SignalsStatus | None:
        """Keeps the ready pods under watch; the figures of the last look at them."""
        if self.signals is None:
            return None
        if isinstance(intent, Intent):
            changed = self.tuner.changed(world.key) if self.tuner else False
            secret = token(self.operator_key, intent.service)
            asked = asked_of(world, intent, decision, changed=changed, now=self.clock.now(), token=secret)
            self.signals.watch(world.key, asked)
        latest = self.signals.latest(world.key)
        return latest.figures if latest else None

    def _is_stale(self, world: World) -> bool:
        """Whether this look is older than an earlier one, as a lagging API server may give: nothing is done on it."""
        last = self._seen.get(world.key)
        pods = frozenset(pod.uid for pod in world.pods)
        if last is not None:
            uid, generation, known = last
            if uid == world.uid and world.generation < generation:
                return True
            self.live.forget(set(known - pods))
            if uid != world.uid:
                self._applier.forget(uid)
        self._seen[world.key] = (world.uid, world.generation, pods)
        return False

    def _forget(self, key: Key) -> None:
        """Drops everything remembered of a service that is gone."""
        last = self._seen.pop(key, None)
        self.ready.pop(key, None)
        self._quotas.forget(key)
        if self.signals is not None:
            self.signals.watch(key, None)
        if self.tuner is not None:
            self.tuner.forget(key)
        if last is not None:
            self._applier.forget(last[0])
            self.live.forget(set(last[2]))


def _nobody(_knobs: Knobs) -> None:
    """Without a tuner no replica tries anything."""


def _next(decision: Decision) -> timedelta | None:
    """When to look again: soon after a write, since what it set in motion may be seen before any event comes."""
    soon = SOON if decision.changes and not decision.blocked else None
    return min((one for one in (soon, decision.live_again, decision.requeue_after) if one is not None), default=None)
