"""The serving benchmark's run: turns, its time, and what becomes of the figures when a contender fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.figures import Figures, Size
from benchmarks.serving import plan, report
from benchmarks.serving.contender import ContenderError, DriverProcess, Result, checked
from benchmarks.serving.roster import NAMES, Roster
from benchmarks.serving.workload import Answer, Load, fixed
from llmservice.tuning.simulator.load import Load as Trace

pytestmark = pytest.mark.unit

DRIVER = """
import sys
from benchmarks.serving.driver import serve
from benchmarks.serving.workload import Answer

def run(load):
    print("what a library prints")
    if load.name == "die":
        sys.exit("no memory")
    if load.name == "hang":
        import time
        time.sleep(600)
    return [Answer(0.5, [1.0] * (job.output_tokens - (load.name == "short"))) for job in load.jobs]

serve(lambda: run)
"""


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Fake:
    """Gives `tokens_per_second` and moves the clock on by what that takes; fails from its `fails_at`-th load on."""

    ready_seconds = 3.0

    def __init__(self, clock: Clock, tokens_per_second: float, fails_at: int = 1_000) -> None:
        self._clock = clock
        self._rate = tokens_per_second
        self._left = fails_at
        self.closed = False

    def run(self, load: Load, limit_seconds: float) -> Result:
        self._left -= 1
        if self._left < 0:
            raise ContenderError("it ended with 1:\nno memory")
        seconds = load.output_tokens / self._rate
        self._clock.seconds += seconds
        each = [[seconds * (at + 1) / job.output_tokens for at in range(job.output_tokens)] for job in load.jobs]
        return checked("fake", load, [Answer(0.0, times) for times in each])

    def close(self) -> None:
        self.closed = True


def roster_of(clock: Clock, names: Sequence[str] = NAMES, **fails_at: int) -> Roster:
    roster = Roster()
    for name in names:
        fake = Fake(clock, 28.0 if name == "torch-none" else 280.0, fails_at.get(name.replace("-", "_"), 1_000))
        roster.start(name, lambda fake=fake: fake)  # type: ignore[misc]
    return roster


def run(roster: Roster, size: Size, clock: Clock, seconds: float = 1e9, trace: Trace | None = None) -> plan.Rounds:
    return plan.run(roster, size, clock() + seconds, trace, tell=lambda _: None, clock=clock)


def test_every_pass_of_a_case_has_the_same_shape_and_other_words() -> None:
    for case in plan.CASES:
        if case.kind == "recorded":
            continue
        for size in (Size.FULL, Size.SMOKE):
            first, second = (case.load(number, size, 100.0) for number in (0, 1))
            assert first is not None
            assert second is not None
            assert len(first.jobs) == len(second.jobs)
            assert not {job.prompt() for job in first.jobs} & {job.prompt() for job in second.jobs}


def test_a_quick_run_has_every_figure_with_a_goal_within_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    roster = roster_of(clock)
    began = clock()
    rounds = run(roster, Size.QUICK, clock, plan.BUDGET_SECONDS[Size.QUICK] - 150)
    assert clock() - began < plan.BUDGET_SECONDS[Size.QUICK] - 150 + 30
    out = Figures("serving")
    report.figures(rounds, roster, NAMES, Size.QUICK, out, bfloat16=True)
    found = {figure.name: figure for figure in out.figures}
    assert found["continuous_over_none_fixed_16"].value == pytest.approx(10.0)
    assert {one.name for one in report.wanted(bfloat16=True) if one.goal} <= found.keys()
    assert not [figure.name for figure in out.figures if figure.value is None]
    assert "torch_over_vllm_fixed_16_lowest" in found, "a core case is seen more than once"


def test_some_contenders_run_only_what_compares_them() -> None:
    assert [case.name for case in plan.cases(Size.FULL, ["vllm", "vllm-triton"])] == ["fixed_16", "fixed_32"]
    assert len(plan.cases(Size.FULL, ["torch"])) == len(plan.CASES)


def test_slow_starts_leave_time_to_measure() -> None:
    assert plan.deadline(Size.QUICK, 100.0, ready=220.0) == 100.0 + 550.0
    assert plan.deadline(Size.QUICK, 100.0, ready=1000.0) == 1000.0 + 342.0
    assert plan.deadline(Size.SMOKE, 100.0, ready=1000.0) == float("inf")
    assert plan.deadline(Size.FULL, 100.0, ready=220.0, budget=1200.0) == 100.0 + 1180.0


def test_minutes_are_a_number_of_them() -> None:
    assert plan.read_minutes("") is None
    assert plan.read_minutes("20") == 1200.0


@pytest.mark.parametrize("text", ["soon", "0", "-3", "nan", "1e9"])
def test_other_minutes_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(SystemExit, match="such as MINUTES=20"):
        plan.read_minutes(text)


def test_turns_alternate() -> None:
    case = next(case for case in plan.CASES if case.name == "fixed_16")
    assert case.names(0)[0] == "torch"
    assert case.names(1) == ("vllm-triton", "vllm", "torch")
    assert case.names(2)[-1] == "torch"
    assert case.names(3) == ("torch", "vllm", "vllm-triton")
    assert case.names(4) == case.names(0)


def test_a_contender_that_fails_costs_its_own_figures_only(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    roster = roster_of(clock, vllm=3)
    rounds = run(roster, Size.QUICK, clock)
    assert roster.absent == {"vllm": "it ended with 1:"}
    out = Figures("serving")
    report.figures(rounds, roster, NAMES, Size.QUICK, out, bfloat16=False)
    found = {figure.name: figure for figure in out.figures}
    assert found["torch_over_vllm_fixed_1"].value is not None, "what it did before counts"
    missing = found["torch_over_vllm_fixed_32"]
    assert (missing.value, missing.ok, missing.why) == (None, False, "vllm: it ended with 1:")
    assert found["continuous_over_none_fixed_16"].goal == report.AVX2_GOAL
    assert found["continuous_over_static_mixed_16"].value is not None


def test_one_that_does_not_start_says_why_and_the_others_run(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    roster = roster_of(clock, ["torch", "generate"])

    def broken() -> Fake:
        raise ContenderError("vllm ended with 1:\nno such flag")

    roster.start("vllm", broken)
    assert roster.absent["vllm"] == "vllm ended with 1:"
    assert "no such flag" in capsys.readouterr().err
    rounds = run(roster, Size.QUICK, clock)
    assert rounds.pairs("fixed_16", "torch", "generate")
    roster.close()
    assert not roster.present(NAMES)


def test_cases_without_time_are_skipped_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    roster = roster_of(clock, ["torch", "vllm"])
    rounds = run(roster, Size.FULL, clock, seconds=10.0)
    assert rounds.skipped["open"] == "no time was left for it"
    out = Figures("serving")
    report.figures(rounds, roster, ["torch", "vllm"], Size.FULL, out, bfloat16=True)
    why = {figure.name: figure.why for figure in out.figures}
    assert why["torch_over_vllm_fixed_32"] == "no time was left for it"
    assert "torch_over_generate_fixed_16" not in why, "nobody asked for it"


def test_a_trace_is_played_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace(np.array([0.0, 1.0, 3.0]), np.full(3, 1000.0), np.full(3, 200.0), 3.0)
    clock = Clock()
    with_it = run(roster_of(clock, ["torch"]), Size.FULL, clock, trace=trace)
    assert with_it.of("recorded", "torch")[0].load.name == "recorded"
    without = run(roster_of(clock, ["torch"]), Size.FULL, clock)
    assert without.skipped["recorded"] == "no trace is at hand"


def test_pictures_and_runs_of_whatever_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    rounds = run(roster_of(clock), Size.SMOKE, clock)
    assert ">vllm-triton<" in report.streams_picture(rounds)
    assert "continuous over none fixed 16" in report.ratios_picture(rounds, bfloat16=True)
    assert report.streams_picture(plan.Rounds()).startswith("<svg")
    report.write_runs(rounds, tmp_path / "runs.json")
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert {one["contender"] for one in runs} == set(NAMES)
    assert runs[0]["latency"]["p99"] > 0


def driver(tmp_path: Path) -> DriverProcess:
    return DriverProcess("toy", [sys.executable, "-c", DRIVER], tmp_path / "log", start_seconds=60)


def test_a_driver_process_answers_until_it_is_closed(tmp_path: Path) -> None:
    toy = driver(tmp_path)
    load = fixed(2, 1, tokens=3)
    assert toy.run(load, 60).answers[1].times == [1.0] * 3
    with pytest.raises(ContenderError, match=r"another number of tokens than asked for jobs \[0, 1\]"):
        toy.run(Load("short", load.jobs, 2), 60)
    assert toy.run(load, 60).tokens_per_second == 6.0
    toy.close()
    assert "what a library prints" in (tmp_path / "log").read_text()


def test_a_driver_process_that_dies_or_hangs_says_so(tmp_path: Path) -> None:
    load = fixed(1, 1)
    for name, seconds, said in (("die", 60.0, "(?s)ended with 1:.*no memory"), ("hang", 0.1, "took too long")):
        toy = driver(tmp_path)
        with pytest.raises(ContenderError, match=said):
            toy.run(Load(name, load.jobs, 1), seconds)
        with pytest.raises(ContenderError):
            toy.run(load, 60)
        toy.close()
    with pytest.raises(ContenderError, match="ended with 3"):
        DriverProcess("toy", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log", start_seconds=60)
