"""The line of figures: what the metrics page says now, and over the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from llmservice.api.status import SignalsStatus
from llmservice.repository.layout import engine_name
from llmservice.signals import scrape
from llmservice.signals.columns import Reading, columns
from llmservice.signals.scrape import Sample

RATE_SECONDS: Final = 5.0
"""Over which tokens/s and batch are taken: gate and engine export about once a second."""
LATENCY_SECONDS: Final = 60.0
"""Over which the percentile is taken: a percentile of a few requests says nothing."""

STEPS: Final = "llm_engine_steps_total"
RUNNING: Final = "llm_engine_running_sequences"
_READ: Final = (scrape.PENDING, scrape.HELD, scrape.TOKENS, scrape.TIME_TO_FIRST_TOKEN, STEPS, RUNNING)
_HERE: Final = "here"


@dataclass(frozen=True)
class Look:
    """The metrics page at one moment, `at` in monotonic seconds. `steps` counts the engine's steps by batch size."""

    at: float
    sample: Sample
    running: float | None
    steps: Mapping[int, float]


def read_page(text: str, service: str, at: float) -> Look:
    """The look in a metrics page. Raises ValueError for a page that is none."""
    # A page has hundreds of series and is read every second: only the few that count are parsed.
    few = "\n".join(line for line in text.splitlines() if line.startswith(_READ)) + "\n"
    running: list[float] = []
    steps: dict[int, float] = {}
    for family in text_string_to_metric_families(few):
        for sample in family.samples:
            if sample.labels.get("model") != engine_name(service):
                continue
            if sample.name == RUNNING:
                running.append(sample.value)
            elif sample.name == STEPS:
                size = int(sample.labels["batch_size"])
                steps[size] = steps.get(size, 0.0) + sample.value
    return Look(at, scrape.parse(few, service), sum(running) if running else None, steps)


@dataclass
class Figures:
    """The looks of the last minute, and what they say together."""

    looks: deque[Look] = field(default_factory=deque)

    def add(self, look: Look) -> None:
        """Takes another look; those too old for every figure go."""
        self.looks.append(look)
        while self.looks[0].at < look.at - LATENCY_SECONDS:
            self.looks.popleft()

    def restart(self) -> None:
        """Forgets all: counters begin again."""
        self.looks.clear()

    def line(self, moment: datetime) -> str:
        """The figures for people; `-` where nothing is known. `moment` is when the last look was taken."""
        if not self.looks:
            return "no figures yet"
        now = self.looks[-1]
        rates = _columns(self._before(now.at - RATE_SECONDS), now, moment)
        latency = _columns(self._before(now.at - LATENCY_SECONDS), now, moment)
        batch = mean_batch(self._before(now.at - RATE_SECONDS).steps, now.steps)
        first = latency.time_to_first_token_p99 if latency else None
        return " · ".join(
            [
                f"queue {_number(rates.queue_depth if rates else None)}",
                f"running {_number(now.running)}",
                f"batch {_number(batch)}",
                f"{_number(rates.tokens_per_second if rates else None)} tokens/s",
                f"TTFT p99 {_number(first.total_seconds() * 1000 if first else None)} ms",
            ]
        )

    def _before(self, at: float) -> Look:
        """The last look that is at least so old, else the oldest."""
        older = [look for look in self.looks if look.at <= at]
        return older[-1] if older else self.looks[0]


def mean_batch(before: Mapping[int, float], now: Mapping[int, float]) -> float | None:
    """Sequences per step between two counts of steps by batch size; None when no step was taken."""
    grown = {size: max(0.0, count - before.get(size, 0.0)) for size, count in now.items()}
    total = sum(grown.values())
    return sum(size * count for size, count in grown.items()) / total if total else None


def _columns(before: Look, now: Look, moment: datetime) -> SignalsStatus | None:
    return columns(Reading(before.at, {_HERE: before.sample}), Reading(now.at, {_HERE: now.sample}), moment)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 10 and value != int(value) else f"{value:.0f}"
