"""The line of figures: what the metrics page says now, and over the last seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from llmservice.api.knobs import Knobs
from llmservice.signals import scrape
from llmservice.signals.adapters import NATIVE
from llmservice.signals.columns import columns
from llmservice.signals.frame import Frame, ReadyPod
from llmservice.signals.measure import measure
from llmservice.signals.page import Page
from llmservice.signals.scrape import Sample
from llmservice.signals.series import PodHistory
from llmservice.tuning.measured import Replicas, Signals, Steps

RATE_SECONDS: Final = 5.0
"""Over which tokens/s and batch are taken: gate and engine export about once a second."""
LATENCY_SECONDS: Final = 60.0
"""Over which the percentile is taken: a percentile of a few requests says nothing."""

_NAMES: Final = tuple(NATIVE.names())
_HERE: Final = "here"


@dataclass(frozen=True)
class Look:
    """The metrics page at one moment, `at` in seconds that never run backwards."""

    at: float
    page: Page
    sample: Sample


def read_page(text: str, service: str, at: float) -> Look:
    """The look in a metrics page. Raises ValueError for a page that is none."""
    # A page has hundreds of series and is read every second: only the few that count are parsed.
    page = Page.parse("\n".join(line for line in text.splitlines() if line.startswith(_NAMES)) + "\n")
    return Look(at, page, scrape.sample_of(page, service))


@dataclass
class Figures:
    """The looks of the last minute at `service`, and what they say together."""

    service: str
    _history: PodHistory = field(default_factory=PodHistory)

    def add(self, look: Look) -> None:
        """Takes another look; those too old for every figure go."""
        self._history.add(look.at, look.page.values(_NAMES))
        self._history.forget_before(look.at - LATENCY_SECONDS)

    def restart(self) -> None:
        """Forgets all: counters begin again."""
        self._history = PodHistory()

    def line(self, moment: datetime) -> str:
        """The figures for people; `-` where nothing is known. `moment` is when the last look was taken."""
        if self._history.newest() is None:
            return "no figures yet"
        rates, latency = self._signals(RATE_SECONDS), self._signals(LATENCY_SECONDS)
        shown, first = columns(rates, _HERE, moment), columns(latency, _HERE, moment).time_to_first_token_p99
        return " · ".join(
            [
                f"queue {_number(shown.queue_depth)}",
                f"running {_number(rates.running.known)}",
                f"batch {_number(mean_batch(rates.steps))}",
                f"{_number(shown.tokens_per_second)} tokens/s",
                f"TTFT p99 {_number(first.total_seconds() * 1000 if first else None)} ms",
            ]
        )

    def _signals(self, seconds: float) -> Signals:
        """The window of the last `seconds`, or as long as there are looks."""
        looks = self._history.read_at
        since = max((at for at in looks if at <= looks[-1] - seconds), default=looks[0])
        frame = Frame(
            service=self.service,
            since=since,
            until=looks[-1],
            scrape_interval=1.0,
            knobs=Knobs(),
            replicas=Replicas(ready=1),
            pods=(ReadyPod(_HERE, looks[-1]),),
        )
        return measure(NATIVE, frame, {_HERE: self._history})


def mean_batch(steps: Sequence[Steps]) -> float | None:
    """Sequences per step; None when no step was taken."""
    total = sum(step.count for step in steps)
    return sum(step.batch_size * step.count for step in steps) / total if total else None


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 10 and value != int(value) else f"{value:.0f}"
