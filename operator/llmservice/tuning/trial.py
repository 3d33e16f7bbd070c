"""A new setting is on trial until it did what was foretold: first on one replica where there are three, then on all.

Canary: a sequential probability ratio test (Wald, 1945) of the share of slow requests against that of the other
replicas. On all: measured means against modelled ones. What fails is undone, and nothing is tried for an hour.

The trial is part of the memory, and the memory is written before any replica is touched: it is what a new process
goes on with, wherever the last one ended.
"""

from __future__ import annotations

from enum import StrEnum
from math import log
from typing import Final

from llmservice.tuning.decision import Knob
from llmservice.tuning.measured import CanaryReport, Signals, Validity
from llmservice.tuning.memory import Memory
from llmservice.tuning.performance import Candidate

CANARY_REPLICAS: Final = 3
CANARY_WINDOWS: Final = 2
CANARY_REQUESTS: Final = 500.0
CANARY_SECONDS: Final = 1800.0
"""Then the evidence there is must do."""
EVIDENCE: Final = log(19.0)
"""Of the likelihood ratio: 5 % of wrong verdicts either way."""
FAILURES: Final = 0.001
VERIFY_WINDOWS: Final = 2
VERIFY_REQUESTS: Final = 200.0
VERIFY_SECONDS: Final = 600.0
UNEXPECTED: Final = 1.25
"""Measured over foretold mean from which on a change did something else than it should."""


class Stage(StrEnum):
    """How far a trial is."""

    CANARY = "Canary"
    ALL = "All"


class Verdict(StrEnum):
    """What a window says of a trial."""

    GOING = "Going"
    GOOD = "Good"
    BAD = "Bad"


class Trial(Memory):
    """A change of one knob that is not proven yet. Settings are (instances, delay in seconds, slots)."""

    stage: Stage
    knob: Knob
    old: tuple[int, float, int]
    new: tuple[int, float, int]
    at: float
    windows: int = 0
    requests: float = 0.0
    measured: float = 0.0
    foretold: float = 0.0
    """Sums over requests, in seconds."""
    pod: str = ""
    """The replica that tries it; empty: all do."""
    generation: int = 0
    """Of the spec it was begun under: another one ends a canary."""
    refused: int = 0
    """Windows in a row in which a replica did not take it."""
    slow: float = 0.0
    failures: float = 0.0
    control_requests: float = 0.0
    control_slow: float = 0.0
    control_failures: float = 0.0
    """Sums over the canary's windows, as `CanaryReport` counts them in one."""

    @property
    def old_candidate(self) -> Candidate:
        """What it came from."""
        return Candidate(*self.old)

    @property
    def new_candidate(self) -> Candidate:
        """What is tried."""
        return Candidate(*self.new)

    @property
    def is_canary(self) -> bool:
        """Whether one replica tries it beside the others."""
        return self.stage is Stage.CANARY

    @property
    def evidence(self) -> CanaryReport:
        """What the canary's windows told together."""
        return CanaryReport(
            requests=self.requests,
            slow=self.slow,
            failures=self.failures,
            control_requests=self.control_requests,
            control_slow=self.control_slow,
            control_failures=self.control_failures,
        )

    def counting(self, report: CanaryReport) -> Trial:
        """With one more window of the canary."""
        return self.model_copy(update={name: getattr(self, name) + getattr(report, name) for name in _COUNTED})


_COUNTED: Final = ("requests", "slow", "failures", "control_requests", "control_slow", "control_failures")


def canary_pod(signals: Signals) -> str:
    """The replica to try a change on: the one that has served the longest of those with figures; empty: none."""
    fresh = [pod for pod in signals.pods if pod.validity is Validity.FRESH and pod.ready_for is not None]
    return min(fresh, key=lambda pod: (-(pod.ready_for or 0.0), pod.name)).name if fresh else ""


def watch_canary(trial: Trial, report: CanaryReport | None, now: float) -> tuple[Trial, Verdict, str]:
    """The trial after one more window with one replica on the new setting, the verdict, and why.

    The first window is not counted: the change came somewhere within it.
    """
    trial = trial.model_copy(update={"windows": trial.windows + 1})
    if report is not None and trial.windows > 1:
        trial = trial.counting(report)
    late = now >= trial.at + CANARY_SECONDS
    seen = trial.evidence
    if seen.requests <= 0 or seen.control_requests <= 0:
        return trial, Verdict.BAD if late else Verdict.GOING, "there are no figures yet to compare"
    if _failing(seen):
        return trial, Verdict.BAD, f"{seen.failures:.0f} of {seen.requests:.0f} requests failed on the canary"
    ratio = likelihood_ratio(seen)
    told = f"{seen.slow:.0f} of {seen.requests:.0f} requests were slow on the canary, "
    told += f"{seen.control_slow:.0f} of {seen.control_requests:.0f} elsewhere"
    if ratio >= EVIDENCE and seen.requests >= CANARY_REQUESTS / 5:
        return trial, Verdict.BAD, told
    enough = trial.windows > CANARY_WINDOWS and seen.requests >= CANARY_REQUESTS
    if enough and ratio <= -EVIDENCE:
        return trial, Verdict.GOOD, told
    if late:
        return trial, Verdict.GOOD if ratio < 0 else Verdict.BAD, told
    return trial, Verdict.GOING, told


def likelihood_ratio(report: CanaryReport) -> float:
    """Log of how much likelier the canary's slow requests are if twice as many are slow there as elsewhere."""
    usual = min(0.4, (report.control_slow + 1.0) / (report.control_requests + 50.0))
    worse = min(0.9, max(2.0 * usual, usual + 0.01))
    fast = max(0.0, report.requests - report.slow)
    return report.slow * log(worse / usual) + fast * log((1.0 - worse) / (1.0 - usual))


def watch_all(
    trial: Trial, measured: float | None, foretold: float | None, requests: float, failing: bool, now: float
) -> tuple[Trial, Verdict, str]:
    """The trial after one more window with every replica on the new setting. Means in seconds; None: not known."""
    if failing:
        return trial, Verdict.BAD, "requests fail since the change"
    trial = trial.model_copy(update={"windows": trial.windows + 1})
    if measured is not None and foretold is not None and requests > 0:
        trial = trial.model_copy(
            update={
                "requests": trial.requests + requests,
                "measured": trial.measured + measured * requests,
                "foretold": trial.foretold + foretold * requests,
            }
        )
    late = now >= trial.at + VERIFY_SECONDS
    if trial.windows < VERIFY_WINDOWS or (trial.requests < VERIFY_REQUESTS and not late):
        return trial, Verdict.GOING, "the change is being verified"
    if trial.foretold <= 0:
        return trial, Verdict.GOOD, "there was nothing to verify the change by"
    ratio = trial.measured / trial.foretold
    told = f"requests take {ratio:.2f} times as long as foretold"
    return trial, Verdict.BAD if ratio > UNEXPECTED else Verdict.GOOD, told


def _failing(report: CanaryReport) -> bool:
    if report.requests <= 0:
        return False
    control = report.control_failures / max(1.0, report.control_requests)
    return report.failures >= 2 and report.failures / report.requests > control + FAILURES
