"""How long each step from pod to first answer took, from the times that Kubernetes itself keeps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from llmservice.api.status import Startup, StartupPhase
from llmservice.diagnose.pod import Container, Pod
from llmservice.signals.engine_start import EngineStart
from llmservice.workload.names import CONVERT_CONTAINER, WEIGHTS_CONTAINER

SCHEDULE = "Schedule"
PULL_IMAGE = "PullImage"
FETCH_WEIGHTS = "FetchWeights"
LOAD_MODEL = "LoadModel"
WARM_UP = "WarmUp"
BECOME_READY = "BecomeReady"

NO_ENGINES: Final[Mapping[str, EngineStart]] = MappingProxyType({})


def startup(pods: tuple[Pod, ...], engines: Mapping[str, EngineStart] = NO_ENGINES) -> Startup | None:
    """The phases of the newest pod's start; None without a pod. Whole seconds: Kubernetes keeps no finer times."""
    alive = [pod for pod in pods if pod.alive]
    return Startup(phases=phases(alive[-1], engines.get(alive[-1].name))) if alive else None


def phases(pod: Pod, engine: EngineStart | None = None) -> list[StartupPhase]:
    """The phases that have begun, each with its seconds once it is over.

    `PullImage` ends with the first container's start, so it holds the sandbox and the volumes too; `LoadModel` lasts
    from Triton's start until the pod is ready, as far as Kubernetes can see. Where the engine tells more (`engine`),
    it is the engine's own load; `WarmUp` follows, and `BecomeReady` is the rest: the start of Triton and of its
    processes, and the probes. A restart of a container starts its phase anew.
    """
    found: list[StartupPhase] = []
    created, scheduled = parse_timestamp(pod.created), parse_timestamp(pod.since("PodScheduled"))
    _add(found, SCHEDULE, created, scheduled)
    begun = [time for time in map(_started, pod.containers) if time is not None]
    _add(found, PULL_IMAGE, scheduled, min(begun) if begun else None)
    weights = pod.init(WEIGHTS_CONTAINER)
    if weights is not None:
        last = pod.init(CONVERT_CONTAINER) or weights
        end = last.ended.finished_at if last.ended and not last.ended.exit_code else None
        _add(found, FETCH_WEIGHTS, _started(weights), parse_timestamp(end))
    if pod.main is not None:
        launched, ready = _started(pod.main), parse_timestamp(pod.since("Ready"))
        if engine is None or launched is None or ready is None or pod.restarts:
            _add(found, LOAD_MODEL, launched, ready)
        else:
            found += _inside(engine, max(0.0, (ready - launched).total_seconds()))
    return found


def _inside(engine: EngineStart, seconds: float) -> list[StartupPhase]:
    """The parts of the `seconds` from Triton's start until the pod was ready."""
    load = min(engine.load_seconds, seconds)
    warm_up = min(engine.warm_up_seconds, seconds - load)
    parts = {LOAD_MODEL: load, WARM_UP: warm_up, BECOME_READY: seconds - load - warm_up}
    return [StartupPhase(name=name, seconds=round(part, 1)) for name, part in parts.items()]


def _started(container: Container) -> datetime | None:
    if container.running_since:
        return parse_timestamp(container.running_since)
    return parse_timestamp(container.ended.started_at) if container.ended else None


def _add(found: list[StartupPhase], name: str, begin: datetime | None, end: datetime | None) -> None:
    if begin is None:
        return
    seconds = max(0.0, (end - begin).total_seconds()) if end is not None else None
    found.append(StartupPhase(name=name, seconds=seconds))


def parse_timestamp(text: str | None) -> datetime | None:
    """The time that `text` writes, with or without a fraction; None where there is none."""
    return datetime.fromisoformat(text) if text else None
