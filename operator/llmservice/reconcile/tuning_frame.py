"""What the tuner has to know of a service beside its series: the frame of its tuning, the state of its pods. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from llmservice.api.batching import BatchingMode
from llmservice.api.engine import Driver
from llmservice.api.fleet import FleetDefaults
from llmservice.api.operations import CanaryMode, Objectives, Percentiles
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.capacity.instances import most_instances
from llmservice.diagnose.pod import Pod
from llmservice.reconcile.decide import Decision
from llmservice.reconcile.intent import Intent
from llmservice.reconcile.live import metrics_url, statistics_url
from llmservice.reconcile.world import World
from llmservice.signals.adapters import Adapter, adapter_of
from llmservice.signals.source import Target
from llmservice.signals.watch import Asked
from llmservice.tuning.measured import Replicas, UnderWay
from llmservice.tuning.settings import Bounds, Limits, Metric, Objective, Settings

NEW_SECONDS = 60.0
"""A pod that became ready this long ago or less tells how long a start takes."""


def settings_of(intent: Intent, fleet: FleetDefaults) -> Settings:
    """The frame of one service's tuning, from its spec, its capacity plan and the fleet's objectives."""
    service, plan = intent.service, intent.plan
    objectives = service.spec.objectives
    if not _promises(objectives):
        objectives = fleet.objectives
    return Settings(
        mode=service.spec.tuning.mode,
        batching=service.spec.batching.mode,
        objectives=_promises(objectives),
        bounds=_bounds(service, intent.most_replicas),
        limits=_limits(service, plan),
        delay_binds=service.spec.engine.driver is Driver.NATIVE and service.spec.batching.mode is not BatchingMode.NONE,
        canary=service.spec.rollout.canary is CanaryMode.AUTO,
        generation=service.metadata.generation,
        model_key=intent.workload.revision,
    )


def asked_of(
    world: World, intent: Intent, decision: Decision, *, changed: bool, now: datetime, token: str = ""
) -> Asked:
    """Which pods to read, and what their window has to know.

    `changed`: the spec is another than in the last window. `token` opens the restricted APIs.
    """
    adapter = adapter_of(intent.service)
    ready = [pod for pod in world.pods if pod.ready and pod.ip]
    return Asked(
        adapter=adapter,
        targets=tuple(_target(world, pod, adapter, token) for pod in ready),
        ready_since={pod.name: _moment(pod.since("Ready"), now) for pod in ready},
        knobs=intent.knobs,
        replicas=_replicas(world, now),
        under_way=_under_way(world, decision, changed=changed),
        replicas_owner=_owner(world, intent),
        canary=intent.tried.canary if intent.tried else None,
    )


def _promises(objectives: Objectives) -> tuple[Objective, ...]:
    found: list[Objective] = []
    for metric, percentiles in (
        (Metric.TIME_TO_FIRST_TOKEN, objectives.time_to_first_token),
        (Metric.PER_OUTPUT_TOKEN, objectives.per_output_token),
        (Metric.LATENCY, objectives.latency),
    ):
        found += _of_metric(metric, percentiles)
    return tuple(found)


def _of_metric(metric: Metric, percentiles: Percentiles | None) -> list[Objective]:
    if percentiles is None:
        return []
    pairs: tuple[tuple[float, timedelta | None], ...] = (
        (0.5, percentiles.p50),
        (0.9, percentiles.p90),
        (0.99, percentiles.p99),
    )
    return [Objective(metric, quantile, value.total_seconds()) for quantile, value in pairs if value is not None]


def _bounds(service: LLMService, most: int | None) -> Bounds:
    """How far each knob may move. Replicas that somebody else owns do not move at all, others not beyond `most`."""
    tuning, scaling, owned = service.spec.tuning.bounds, service.spec.scaling, service.spec.replicas
    highest = scaling.max_replicas if most is None else max(scaling.min_replicas, min(scaling.max_replicas, most))
    return Bounds(
        min_delay=tuning.max_queue_delay.min.total_seconds(),
        max_delay=tuning.max_queue_delay.max.total_seconds(),
        min_instances=tuning.engine_instances.min,
        max_instances=tuning.engine_instances.max,
        min_replicas=scaling.min_replicas if owned is None else owned,
        max_replicas=highest if owned is None else owned,
    )


def _limits(service: LLMService, plan: CapacityPlan) -> Limits:
    return Limits(
        max_sequences=plan.max_sequences,
        instances_in_memory=most_instances(service, plan),
        kv_tokens=0 if plan.fits is False else plan.kv_tokens,  # what serves has more than a plan that refuses it
        accelerators_per_replica=max(1, plan.accelerators_per_replica),
    )


def _replicas(world: World, now: datetime) -> Replicas:
    alive = [pod for pod in world.pods if pod.alive]
    coming = [pod for pod in alive if not pod.ready]
    placed = [pod for pod in coming if pod.since("PodScheduled")]
    young = [pod for pod in alive if pod.ready and now.timestamp() - _moment(pod.since("Ready"), now) <= NEW_SECONDS]
    return Replicas(
        ready=sum(pod.ready for pod in alive),
        starting=tuple(_age(pod, now) for pod in placed),
        pending=tuple(_age(pod, now) for pod in coming if pod not in placed),
        terminating=sum(pod.deleting and not pod.over for pod in world.pods),
        cold_starts=tuple(_moment(pod.since("Ready"), now) - _moment(pod.created, now) for pod in young),
    )


def _under_way(world: World, decision: Decision, *, changed: bool) -> tuple[UnderWay, ...]:
    found = {
        UnderWay.ROLLOUT: bool(decision.rolling),
        UnderWay.DRAIN: any(pod.deleting and not pod.over for pod in world.pods),
        UnderWay.USER_CHANGE: changed,
        UnderWay.LIVE_CHANGE: bool(decision.live_waiting),
        UnderWay.LIVE_FAILURE: bool(decision.live_failure),
    }
    return tuple(kind for kind, there in found.items() if there)


def _owner(world: World, intent: Intent) -> str:
    """Who else writes replicas; empty: only the operator does."""
    if world.autoscaler is not None:
        return f"HorizontalPodAutoscaler {world.autoscaler}"
    return "spec.replicas" if intent.service.spec.replicas is not None else ""


def _target(world: World, pod: Pod, adapter: Adapter, token: str) -> Target:
    where = (world.key[0], pod.name)
    if not adapter.statistics:
        return Target(where, metrics_url(pod), adapter.names())
    return Target(where, metrics_url(pod), adapter.names(), statistics_url(pod, world.key[1]), token)


def _age(pod: Pod, now: datetime) -> float:
    return max(0.0, now.timestamp() - _moment(pod.created, now))


def _moment(text: str | None, now: datetime) -> float:
    """An instant as Kubernetes writes it, in seconds since the epoch; now where it is not there."""
    if not text:
        return now.timestamp()
    return min(datetime.fromisoformat(text).timestamp(), now.timestamp())
