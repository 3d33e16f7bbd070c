"""What a diagnosis answers, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmservice.api.reasons import Reason
from llmservice.diagnose.pod import Pod


@dataclass(frozen=True)
class Evidence:
    """One pod and what is known about it beyond its manifest.

    `events` are the messages of its warning and pull events, oldest first, as `Reason: message`; `log` is the end of
    the Triton container's log (of the run that failed, where one did), `weights_log` of the container that brings the
    weights.
    """

    pod: Pod
    events: tuple[str, ...] = ()
    log: str = ""
    weights_log: str = ""


@dataclass(frozen=True)
class Finding:
    """Why one pod does not serve. `fault`: it will not get better by waiting alone.

    `lacks` are the accelerators that it waits for: extended resources and how many of each.
    """

    reason: Reason
    message: str
    pod: str = ""
    replica: str = ""
    """The pod that stands for its replica; the same for all pods of one."""
    fault: bool = True
    lacks: tuple[tuple[str, int], ...] = ()
    replicas: int = 1
    """How many it concerns, once findings of pods have become one of the service."""
    pods: int = 1
    """How many pods of theirs."""


Check = Callable[[Evidence], Finding | None]
"""One pure look at the evidence; None where it has nothing to say."""
