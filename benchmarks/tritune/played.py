"""One controller on one question, judged from a moment on."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from benchmarks.tritune.oracles import LeadTimeOracle
from llmservice.api.knobs import Knobs
from llmservice.tuning.simulator.plant import Plant, Tally
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.run import Controller, Fixed, Run, simulate
from llmservice.tuning.simulator.sensors import SCRAPE, Faults

DAY = 86400.0


@dataclass(frozen=True)
class Played:
    """What counts from `start` on."""

    name: str
    hours: float
    attainment: float
    violated: float
    replica_changes: int
    reversals: int
    reloads: int
    instance_changes: int
    dropped: int
    days: float
    run: Run

    @property
    def changes_a_day(self) -> float:
        """Changes of the number of replicas."""
        return self.replica_changes / self.days


def play(
    name: str,
    question: Question,
    controller: Controller,
    knobs: Knobs,
    *,
    start: float = 0.0,
    record: bool = False,
    faults: Faults | None = None,
) -> Played:
    """Runs `controller` from `knobs` on over the whole load and judges what comes from `start` on."""
    before: list[Tally] = []
    run = simulate(
        question.kind,
        question.load,
        controller,
        question.objectives,
        knobs,
        times=question.times,
        seed=question.seed,
        events=((start, lambda plant: _note(plant, before)),),
        record=record,
        scrape=60.0 if isinstance(controller, (Fixed, LeadTimeOracle)) else SCRAPE,
        faults=faults,
    )
    then, now = before[0], run.tally
    return Played(
        name,
        (now.replica_seconds - then.replica_seconds) / 3600,
        run.judge.attainment(start),
        run.judge.violated(start),
        now.replica_changes - then.replica_changes,
        reversals(
            [point for point in now.replica_path if point[0] >= start], 4 * max(question.times.cold_start, 180.0)
        ),
        now.delay_reloads - then.delay_reloads,
        now.instance_changes - then.instance_changes,
        now.dropped - then.dropped,
        (run.seconds - start) / DAY,
        run,
    )


def reversals(path: Sequence[tuple[float, float]], within: float) -> int:
    """How often a knob came back to where it had been, having left it less than `within` seconds before."""
    moves = [path[0]] if path else []
    for point in path[1:]:
        if point[1] != moves[-1][1]:
            moves.append(point)
    pairs = zip(moves, moves[1:], moves[2:], strict=False)
    return sum(1 for first, left, back in pairs if back[1] == first[1] and back[0] - left[0] < within)


def _note(plant: Plant, before: list[Tally]) -> None:
    before.append(deepcopy(plant.tally))
