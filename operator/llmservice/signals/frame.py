"""What is known of a window beside its series: its time, and what the API server says of the pods. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.signals.canary import Canary
from llmservice.signals.series import PodHistory
from llmservice.tuning.measured import MISSING, Measured, Replicas, UnderWay

STALE_AFTER: Final = 2
"""Scrape intervals after which a pod's newest sample is too old."""


@dataclass(frozen=True)
class ReadyPod:
    """A pod that serves, for so many seconds."""

    name: str
    ready_for: float


@dataclass(frozen=True)
class Frame:
    """What the API server knows of the window: moments in seconds since the epoch, by the reader's clock."""

    service: str
    since: float
    until: float
    scrape_interval: float
    knobs: Knobs
    replicas: Replicas
    pods: tuple[ReadyPod, ...]
    """Those that are ready."""
    free_accelerators: Measured = MISSING
    under_way: tuple[UnderWay, ...] = ()
    replicas_owner: str = ""
    canary: Canary | None = None

    @property
    def seconds(self) -> float:
        """Length of the window; 0 for a first look."""
        return self.until - self.since

    def is_new(self, pod: ReadyPod) -> bool:
        """Whether the pod began with this window, or so short a time before that nobody could have read it by then."""
        return pod.ready_for <= self.seconds + STALE_AFTER * self.scrape_interval

    def is_covered(self, pod: ReadyPod, history: PodHistory) -> bool:
        """Whether all that the pod did in the window is known, and nothing else: it was read shortly before, or is new.

        After a hole in what was read, counters have grown by what came in the hole too.
        """
        before = self.since - STALE_AFTER * self.scrape_interval
        return history.known_before(self.since, before) or self.is_new(pod)

    def is_expected(self, pod: ReadyPod) -> bool:
        """Whether it has served for so long that its samples should be there."""
        return pod.ready_for > STALE_AFTER * self.scrape_interval

    @property
    def oldest_sample(self) -> float:
        """When a pod's newest sample must have been taken, not to be too old."""
        return self.until - STALE_AFTER * self.scrape_interval
