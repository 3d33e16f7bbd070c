"""Containers that were killed or hang: who did it decides what is said."""

from __future__ import annotations

from llmservice.api.reasons import Reason
from tests.unit.diagnose.pod_cases import RUNNING, Case, failed, initialized, triton

ENDED_BY_US = "llmservice: ending tritonserver: a gate process died"


CASES_OF_KILLS = [
    Case(
        "a SIGKILL in a container with a memory limit that nobody claims",
        Reason.OUT_OF_MEMORY,
        "the kernel killed it",
        initialized(triton(RUNNING, last=failed(137), restarts=1)),
        limits={"memory": "1Gi"},
    ),
    Case(
        "a SIGKILL in a container without a memory limit",
        Reason.CRASH_LOOP,
        "exit code 137 (1 restart)",
        initialized(triton(RUNNING, last=failed(137), restarts=1)),
    ),
    Case(
        "our own watch ended Triton because a process of it died",
        Reason.CRASH_LOOP,
        "a gate process died",
        initialized(triton(RUNNING, last=failed(137, message=ENDED_BY_US), restarts=1)),
        limits={"memory": "1Gi"},
    ),
    Case(
        "Triton served and hangs",
        Reason.NOT_ANSWERING,
        "context deadline exceeded",
        initialized(triton(RUNNING, started=True)),
        events=("Unhealthy: Readiness probe failed: Get http://10.0.0.9/: context deadline exceeded",),
    ),
    Case(
        "Triton has started and was not asked yet whether it is ready",
        Reason.LOADING_MODEL,
        "loads the model",
        initialized(triton(RUNNING, started=True)),
        events=("Unhealthy: Startup probe failed: connection refused",),
        fault=False,
    ),
]
