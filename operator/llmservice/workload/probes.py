"""When a replica has started, is ready, is alive; and how it leaves."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final

from llmservice.api.fleet import FleetDefaults
from llmservice.api.operations import Drain
from llmservice.api.plan import CapacityPlan
from llmservice.repository.layout import gate_name
from llmservice.workload.manifest import Manifest

MINIMUM_LOAD_BANDWIDTH: Final = 100_000_000
"""Bytes per second at which weights reach the accelerator from the slowest storage worth it, a network disk."""

BASE_STARTUP: Final = timedelta(minutes=5)
"""Start of Triton and its Python processes, compilation and warm-up, whatever the model's size."""

UNKNOWN_STARTUP: Final = timedelta(hours=1)
"""Where the size of the weights is not known: enough for 330 GB."""

FETCH_ALLOWANCE: Final = timedelta(hours=1)
"""Time for images and weights to arrive."""

STARTUP_PERIOD: Final = timedelta(seconds=2)
STOP_MARGIN: Final = timedelta(seconds=15)
"""Between Triton's own limit for in-flight requests and the kill: models unload in it."""


def startup_budget(plan: CapacityPlan) -> timedelta:
    """How long loading may take before the kubelet restarts the container.

    Fetching is not in it: it comes before. Over several nodes the leader may have to wait for the others'.
    """
    others = FETCH_ALLOWANCE if plan.nodes > 1 else timedelta()
    if not plan.weights_bytes:
        return UNKNOWN_STARTUP + others
    return BASE_STARTUP + others + timedelta(seconds=math.ceil(plan.weights_bytes / MINIMUM_LOAD_BANDWIDTH))


def build_probes(service: str, plan: CapacityPlan) -> Manifest:
    """The three probes of the Triton container.

    Started: every named model is loaded. Ready: the gate takes requests; the server as a whole also answers 503 while
    an engine instance is added. Alive: the process answers; never readiness, which a slow load would turn into a
    restart loop (server#7014).
    """
    return {
        "startupProbe": {
            "httpGet": {"path": "/v2/health/ready", "port": "http"},
            "periodSeconds": int(STARTUP_PERIOD.total_seconds()),
            "timeoutSeconds": 2,
            "failureThreshold": math.ceil(startup_budget(plan) / STARTUP_PERIOD),
        },
        "readinessProbe": {
            "httpGet": {"path": f"/v2/models/{gate_name(service)}/ready", "port": "http"},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": {"path": "/v2/health/live", "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
    }


def build_lifecycle(fleet: FleetDefaults) -> Manifest:
    """The drain hook: the replica keeps serving until every proxy has taken it out of its endpoints.

    Kubernetes' own sleep action (beta and on by default in 1.30, stable in 1.34; KEP-3960) needs no shell in the
    image. Then SIGTERM comes: Triton takes no new connection and finishes what is in flight.
    """
    return {"preStop": {"sleep": {"seconds": _seconds(fleet.endpoint_drain)}}}


def grace_period(drain: Drain, fleet: FleetDefaults) -> int:
    """`terminationGracePeriodSeconds`: the hook, the drain and the unload, in seconds."""
    return _seconds(fleet.endpoint_drain) + _seconds(drain.timeout) + _seconds(STOP_MARGIN)


def exit_timeout(drain: Drain) -> int:
    """Triton's `--exit-timeout-secs`: how long it waits for requests in flight after SIGTERM."""
    return _seconds(drain.timeout)


def _seconds(duration: timedelta) -> int:
    return max(1, math.ceil(duration.total_seconds()))
