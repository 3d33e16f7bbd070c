"""A new setting is on trial until it did what was foretold: first on one replica where there are three, then on all.

Canary: a sequential probability ratio test (Wald, 1945) of the share of slow requests against that of the other
replicas. On all: measured means against modelled ones. What fails is undone, and nothing is tried for an hour.
"""

from __future__ import annotations

from enum import StrEnum
from math import log
from typing import Final

from llmservice.tuning.decision import Knob
from llmservice.tuning.measured import CanaryReport
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

    @property
    def old_candidate(self) -> Candidate:
        """What it came from."""
        return Candidate(*self.old)

    @property
    def new_candidate(self) -> Candidate:
        """What is tried."""
        return Candidate(*self.new)


def watch_canary(trial: Trial, report: CanaryReport | None, now: float) -> tuple[Trial, Verdict, str]:
    """The trial after one more window with one replica on the new setting, the verdict, and why."""
    trial = trial.model_copy(update={"windows": trial.windows + 1})
    late = now >= trial.at + CANARY_SECONDS
    if report is None:
        return trial, Verdict.BAD if late else Verdict.GOING, "the canary has no figures"
    if _failing(report):
        return trial, Verdict.BAD, f"{report.failures:.0f} of {report.requests:.0f} requests failed on the canary"
    ratio = likelihood_ratio(report)
    told = f"{report.slow:.0f} of {report.requests:.0f} requests were slow on the canary, "
    told += f"{report.control_slow:.0f} of {report.control_requests:.0f} elsewhere"
    if ratio >= EVIDENCE and report.requests >= CANARY_REQUESTS / 5:
        return trial, Verdict.BAD, told
    enough = trial.windows >= CANARY_WINDOWS and report.requests >= CANARY_REQUESTS
    if enough and ratio <= -EVIDENCE:
        return trial, Verdict.GOOD, told
    if late:
        return trial, Verdict.GOOD if ratio < 0 and report.requests > 0 else Verdict.BAD, told
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
