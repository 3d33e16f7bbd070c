"""What the tuner costs: processor time per service and window, and the size of what it remembers.

Both engine kinds under a load that doubles and halves over a simulated day, decided on every 30 s. The time to simulate
a new model, once service times have moved, is in the mean and told by itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.figures import Figures, quick
from llmservice.api.knobs import Knobs
from llmservice.tuning.measured import Signals
from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.kinds import LLAMA_8B_A100, BatchKind, Kind
from llmservice.tuning.simulator.load import load_of, poisson
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.run import Tuner

SLOW_BATCHES = BatchKind(overhead=0.1, per_request=0.01)
LATENCY = (Objective(Metric.LATENCY, 0.99, 1.0),)
CHAT = (Objective(Metric.TIME_TO_FIRST_TOKEN, 0.99, 2.0), Objective(Metric.PER_OUTPUT_TOKEN, 0.99, 0.060))
PART = 3600.0
RATES = (20.0, 40.0, 80.0, 60.0, 30.0, 15.0)


@dataclass
class Timed(Tuner):
    """The tuner, with the processor time of each decision in seconds."""

    spent: list[float] = field(default_factory=list)

    def look(self, signals: Signals, now: float) -> Knobs:
        """See `Tuner`."""
        start = time.process_time()
        knobs = super().look(signals, now)
        self.spent.append(time.process_time() - start)
        return knobs


def measure(kind: Kind, objectives: tuple[Objective, ...], rates: Sequence[float], parts: int) -> Timed:
    """The tuner after `parts` hours."""
    random = np.random.default_rng(11)
    pieces = [poisson(rates[part % len(rates)], PART, random) + part * PART for part in range(parts)]
    load = load_of(np.concatenate(pieces), parts * PART, random)
    question = Question(kind, load, objectives, max_replicas=16, max_delay=0.25)
    controller = Timed(question.settings)
    question.play(controller, question.first_knobs(4))
    return controller


def main() -> None:
    """Prints and writes the figures."""
    figures = Figures("tuner-cost")
    parts = 2 if quick() else 12
    spent: list[float] = []
    for name, kind, objectives, rates in (
        ("batches", SLOW_BATCHES, LATENCY, RATES),
        ("continuous", LLAMA_8B_A100, CHAT, tuple(rate / 3 for rate in RATES)),
    ):
        controller = measure(kind, objectives, rates, parts)
        milliseconds = 1000 * np.array(controller.spent)
        spent += controller.spent
        figures.add(f"tuner_cpu_{name}_median", float(np.median(milliseconds)), "ms", 10.0)
        figures.add(f"tuner_cpu_{name}_mean", float(np.mean(milliseconds)), "ms", 10.0)
        figures.add(f"tuner_cpu_{name}_longest", float(np.max(milliseconds)), "ms")
        figures.add(f"tuner_memory_{name}", len(json.dumps(controller.state.dump())) / 1024, "KiB", 100.0)
    figures.add("tuner_cpu_per_service_and_window", 1000 * float(np.mean(spent)), "ms", 10.0)
    figures.write()


if __name__ == "__main__":
    main()
