"""Every workload, contestant and ablation plays, small, and what was played is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.tritune import (
    ablation,
    cell,
    checks,
    constant,
    contest,
    faulty,
    flapping,
    recorded,
    stepping,
    weeks,
)
from benchmarks.tritune.__main__ import PLAYS, _play, main
from benchmarks.tritune.cell import Cell, Numbers, Scope, digest, kept, played
from benchmarks.tritune.contest import Contest
from benchmarks.tritune.played import play
from benchmarks.tritune.policies import compete, policies
from benchmarks.tritune.questions import CHAT, TENTH, TENTH_NORMAL, dynamic, tokens
from llmservice.api.knobs import Knobs
from llmservice.tuning import guard
from llmservice.tuning.decision import Knob
from llmservice.tuning.guard import Change, Guard
from llmservice.tuning.settings import Metric, Objective
from llmservice.tuning.simulator.kinds import BatchKind
from llmservice.tuning.simulator.load import Tokens, load_of, poisson
from llmservice.tuning.simulator.question import Question
from llmservice.tuning.simulator.run import Fixed

pytestmark = pytest.mark.unit

SHORT = Tokens(200.0, 20.0)
GIVEN: Numbers = {"each": 3.0, "target": 5.0, "replicas": 2.0}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmservice.tuning.simulator.plant.available", lambda: False)


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    return Scope(quick=True, seeds=1, traces=None, store=tmp_path / "kept")


def small(*, continuous: bool, rate: float = 3.0, seconds: float = 240.0) -> Question:
    random = np.random.default_rng(3)
    load = load_of(poisson(rate, seconds, random), seconds, random, SHORT)
    if continuous:
        return tokens(load, CHAT, lead=60.0, most=3)
    return dynamic(load, TENTH_NORMAL, kind=TENTH, lead=60.0, most=3)


def contested(*, continuous: bool) -> Contest:
    question = small(continuous=continuous)
    return Contest(question, question, start=60.0, learn=lambda name, find: GIVEN)


@pytest.mark.parametrize(
    ("policy", "continuous"),
    [(policy, continuous) for continuous in (True, False) for policy in policies(continuous=continuous)],
)
def test_everybody_competes(policy: str, continuous: bool) -> None:
    numbers = compete(policy, contested(continuous=continuous))
    hours = numbers["hours"]
    assert isinstance(hours, float)
    assert 0 < hours <= 3 * 240 / 3600
    if not policy.startswith("O1"):
        assert 0 <= float(str(numbers["met"])) <= 100
        assert numbers["dropped_by_scaling"] == 0


def test_what_a_replica_takes_is_found_for_batches_too() -> None:
    """Its trial was too short to be judged, so that nobody but the tuner could be played on kind A."""
    slow = BatchKind(overhead=4.0, per_request=0.4, jitter=0.0)
    random = np.random.default_rng(3)
    load = load_of(poisson(1.0, 240.0, random), 240.0, random)
    question = dynamic(load, (Objective(Metric.LATENCY, 0.99, 44.0),), kind=slow, lead=60.0, most=3)
    found = Contest(question, question)
    assert 0.5 * slow.capacity < found.table.each < 1.1 * slow.capacity
    assert found.best_table.each >= found.table.each


def test_a_name_that_is_nobody() -> None:
    with pytest.raises(KeyError):
        compete("B10", contested(continuous=True))


def test_the_first_choice_that_holds_in_training_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "WARM", 60.0)
    question = small(continuous=False, rate=95.0, seconds=120.0)
    one = Contest(question, question, goal=0.01)

    def fixed(count: float) -> tuple[Fixed, object]:
        knobs = question.first_knobs(int(count))
        return Fixed(knobs), knobs

    assert one.cheapest(fixed, (1, 2, 3)) == 2  # type: ignore[arg-type]
    assert Contest(question, question, goal=1.0).cheapest(fixed, (1, 2, 3)) == 1  # type: ignore[arg-type]


def test_constant_load(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SETTLE", 60.0), ("JUDGED", 60.0), ("TRIAL", 12.0)):
        monkeypatch.setattr(constant, name, seconds)
    numbers = constant.play(scope, Cell(0, "W1", "0.1 tight", "tuner"))
    assert numbers["met"] == pytest.approx(100, abs=5)
    assert numbers["step_time_error"] == pytest.approx(0, abs=2)
    assert numbers["regret"] in (0.0, 100.0)


def test_step_times_from_counters_by_request(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant, "COUNTED", 150.0)
    numbers = constant.play(scope, Cell(0, "W1 counters", "0.1", "tuner"))
    assert numbers["step_time_error"] == pytest.approx(0, abs=15)


def test_steps_are_judged_but_for_the_lead_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "LENGTH", 300.0)
    monkeypatch.setattr(stepping, "BASE", 0.02)
    monkeypatch.setattr(stepping, "every", lambda question, load: [])
    monkeypatch.setattr(stepping, "best_setting", lambda settings, objective: Best())
    question = stepping.asked(0)
    knobs = question.first_knobs(2)
    found = play(question, Fixed(knobs), knobs, record=True)
    numbers = stepping.settled(found, 0)
    assert 0 < float(str(numbers["settle_ready"])) <= 300.0
    assert numbers["oscillations"] == 0
    assert numbers["met_after_lead"] == pytest.approx(100, abs=1)


class Best:
    knobs = Knobs(replicas=2)


def test_stand_ins_are_played_where_no_trace_is(scope: Scope, tmp_path: Path) -> None:
    assert recorded.source(scope, "W4") == "stand-in"
    (tmp_path / "azure2023_conv.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        + "".join(f"2023-11-16 18:{minute:02}:00.0000000,100,20\n" for minute in range(40))
    )
    with_trace = Scope(quick=True, seeds=1, traces=tmp_path, store=tmp_path)
    assert recorded.source(with_trace, "W4") == "azure2023_conv.csv"
    found = recorded.recorded(with_trace, Cell(0, "W4", "", "tuner"))
    assert len(found.question.load.times) == 40
    assert found.start == 1200.0
    assert found.training.load.seconds == 1200.0


def test_days_are_judged_on_the_second_half(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weeks, "THINNED", 0.1)
    variant = f"{weeks.names(scope)[0]} 180"
    mine = weeks.contest_of(scope, Cell(0, "W7", variant, "tuner"))
    theirs = weeks.contest_of(scope, Cell(0, "W7", variant, "B1 static p99"))
    assert mine.start == 86400.0
    assert theirs.start == 900.0
    assert mine.question.load.seconds - mine.start == theirs.question.load.seconds - theirs.start == 86400.0
    assert mine.goal == 0.003


def test_every_fault_is_known_by_its_cell(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(faulty, "faulted", lambda fault, seed, *, continuous: seen.append((fault.name, continuous)))
    for one in faulty.cells(scope):
        faulty.play(scope, one)
    assert len(set(seen)) == 2 * len(faulty.FAULTS)


def test_a_guard_is_out_only_inside() -> None:
    changed = Guard(changes=(Change(at=0.0, knob=Knob.REPLICAS, old=3.0, new=2.0),))

    def locked() -> bool:
        return guard.goes_back(changed, Knob.REPLICAS, 3.0, 300.0, 180.0)

    assert locked()
    with ablation.without(ablation.GUARDS["reversal lock"]):
        assert not locked()
    assert locked()


@pytest.mark.parametrize("name", ablation.GUARDS)
def test_every_guard_that_can_be_taken_out_is_there(name: str) -> None:
    with ablation.without(ablation.GUARDS[name]):
        pass


def test_an_attack_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flapping, "KNOTS", 2)
    monkeypatch.setattr(flapping, "SPACING", 120.0)
    found = flapping.search(2, 0, 60.0)
    assert len(found.rates) == 2
    assert found.reversals == 0


def test_the_simulator_s_checks_have_cells(scope: Scope) -> None:
    assert [one.variant for one in checks.cells(scope)] == ["inoue", "simpy", "a100"]


def test_what_was_played_is_kept_until_the_code_changes(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Cell(0, "W2", "", "B7 Dynamo planner")
    calls: list[int] = []

    def play() -> Numbers:
        calls.append(1)
        return {"hours": 2.0}

    assert played(scope, one, "stepping", play) == played(scope, one, "stepping", play) == {"hours": 2.0}
    assert len(calls) == 1
    assert kept(scope, one, "stepping") == {"hours": 2.0}
    monkeypatch.setattr(cell, "_hash", lambda module, tuner: "other")
    assert kept(scope, one, "stepping") is None


def test_a_run_that_fails_stops_no_other(
    scope: Scope, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def play(_: Scope, one: Cell) -> Numbers:
        if one.policy == "tuner":
            raise ValueError("no such load")
        return {"hours": 2.0}

    monkeypatch.setenv("WORKERS", "1")
    monkeypatch.setitem(PLAYS, "W2", ("stepping", stepping.cells, play))
    results: dict[Cell, Numbers] = {}
    both = [Cell(0, "W2", "", policy) for policy in ("tuner", "B7 Dynamo planner")]
    assert _play(scope, [("W2", one) for one in both], results) == 1
    assert results == {both[1]: {"hours": 2.0}}
    assert "no such load" in capfd.readouterr().err
    assert kept(scope, both[1], "stepping") == {"hours": 2.0}


def test_a_name_that_is_no_workload() -> None:
    with pytest.raises(SystemExit, match=r"no workload W99: there are .* W4"):
        main(["W99"])


def test_a_broken_file_is_played_again(scope: Scope) -> None:
    one = Cell(0, "W2", "", "tuner")
    path = cell.path_of(scope, one, "stepping")
    path.parent.mkdir(parents=True)
    path.write_text('{"hours": ')
    assert played(scope, one, "stepping", lambda: {"hours": 1.0}) == {"hours": 1.0}


def test_comments_change_no_hash() -> None:
    one = 'def f(a):\n    """Words."""\n    return a + 1\n'
    assert digest([one]) == digest(["def f(a):\n    # why\n    return (a + 1)\n"])
    assert digest([one]) != digest([one.replace("1", "2")])


def test_the_fewest_replicas_that_hold_are_found_by_hindsight() -> None:
    question = small(continuous=False, rate=7.0)
    one = Contest(question, question, start=60.0, learn=lambda name, find: GIVEN)
    found = {count: one.fixed(question.first_knobs(count)) for count in (1, 2, 3)}
    fewest = min((count for count, played in found.items() if played.violated <= one.goal), default=3)
    assert compete("B1 static enough", one)["hours"] == pytest.approx(found[fewest].hours)
