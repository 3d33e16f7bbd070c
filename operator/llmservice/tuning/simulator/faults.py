"""What goes wrong with measuring and acting: the faults of W8, each with a beginning and an end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from llmservice.tuning.measured import Signals
from llmservice.tuning.simulator.plant import Plant
from llmservice.tuning.simulator.sensors import Faults, Sample


@dataclass
class Between(Faults):
    """A fault from `start` to `end`, in seconds."""

    start: float
    end: float

    def on(self, at: float) -> bool:
        """Whether it is going on."""
        return self.start <= at < self.end


class Outage(Between):
    """Nothing is scraped: Prometheus is away."""

    def seen(self, at: float, name: str, sample: Sample) -> Sample | None:
        """Nothing, while it lasts."""
        _ = name
        return None if self.on(at) else sample


@dataclass
class MissingScrapes(Between):
    """A share of scrapes brings nothing."""

    share: float = 0.2
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(8))

    def seen(self, at: float, name: str, sample: Sample) -> Sample | None:
        """Nothing, now and then."""
        _ = name
        return None if self.on(at) and self.random.random() < self.share else sample


@dataclass
class CounterReset(Between):
    """Every pod's counters begin again at `start`, as after a container's restart."""

    before: dict[str, Sample] = field(default_factory=dict)

    def seen(self, at: float, name: str, sample: Sample) -> Sample | None:
        """Counted from the reset on."""
        if not self.on(at):
            return sample
        before = self.before.setdefault(name, sample)
        return replace(
            sample,
            arrived=sample.arrived - before.arrived,
            completed=sample.completed - before.completed,
            sums=sample.sums - before.sums,
            counts=sample.counts - before.counts,
            seconds=sample.seconds - before.seconds,
            histograms=sample.histograms - before.histograms,
        )


@dataclass
class StalePod(Between):
    """One pod's series stand still: its last sample is told again and again, with its own old time."""

    kept: dict[str, Sample] = field(default_factory=dict)

    def seen(self, at: float, name: str, sample: Sample) -> Sample | None:
        """The old sample, of the first pod seen."""
        if not self.on(at) or (self.kept and name not in self.kept):
            return sample
        return self.kept.setdefault(name, sample)


@dataclass
class ClockSkew(Between):
    """One pod's clock is ahead: its samples bear a time that is not yet."""

    ahead: float = 20.0
    pod: str = ""

    def seen(self, at: float, name: str, sample: Sample) -> Sample | None:
        """With the wrong time, of the first pod seen."""
        if not self.on(at):
            return sample
        self.pod = self.pod or name
        return replace(sample, at=sample.at + self.ahead) if name == self.pod else sample


@dataclass
class OtherWriter(Between):
    """A HorizontalPodAutoscaler targets the service too, and the operator sees that it does."""

    owner: str = "HorizontalPodAutoscaler chat"

    def signals(self, at: float, signals: Signals) -> Signals:
        """With its owner."""
        return replace(signals, replicas_owner=self.owner) if self.on(at) else signals


def drift(factor: float) -> Callable[[Plant], None]:
    """The engine becomes `factor` times as slow."""

    def happen(plant: Plant) -> None:
        plant.pace.kind = plant.pace.kind.drifted(factor)

    return happen


def no_node(seconds: float) -> Callable[[Plant], None]:
    """New pods wait `seconds` for a node from now on."""

    def happen(plant: Plant) -> None:
        plant.schedule_delay = seconds

    return happen


def reloads_fail(*, failing: bool) -> Callable[[Plant], None]:
    """Reloads of the gate fail from now on, for want of memory, or no longer."""

    def happen(plant: Plant) -> None:
        plant.reload_fails = failing

    return happen


def written_by_other(replicas: int) -> Callable[[Plant], None]:
    """Somebody else sets the number of replicas."""

    def happen(plant: Plant) -> None:
        plant.set_knobs(plant.knobs.model_copy(update={"replicas": replicas}))

    return happen
