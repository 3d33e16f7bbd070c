"""Drawings of the tuner at work: W2, and two days of W7."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures import ROOT
from benchmarks.tritune import stepping, weeks
from benchmarks.tritune.cell import Cell, Scope
from benchmarks.tritune.contest import Contest, tuner
from benchmarks.tritune.plot import draw_run
from benchmarks.tritune.questions import CHAT, NORMAL
from llmservice.tuning.simulator.run import Tuner

DOCS = ROOT / "docs" / "images"
DAYS = 2
DAY = 86400.0


def pictures(scope: Scope, folder: Path) -> None:
    """Draws both into `folder` and, where a full run was played, into the docs."""
    question = stepping.asked(0)
    run = question.play(Tuner(question.settings), question.first_knobs(1), record=True)
    folders = [folder] if scope.quick else [folder, DOCS]
    for place in folders:
        draw_run("W2: half the load, twice the load, half again", run, NORMAL, place / "tritune-steps.svg")
    whole = weeks.contest_of(scope, Cell(0, "W7", f"{weeks.names(scope)[0]} 180", "tuner"))
    load = whole.question.load.part(0.0, min(whole.question.load.seconds, DAYS * DAY))
    short = Contest(weeks.asked(load, 180.0, 0), whole.training)
    played = tuner(short, record=True)
    for place in folders:
        draw_run("W7: two days of the series", played.run, CHAT, place / "tritune-days.svg")
