"""The table and its figures are of what was played, and tell what was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tritune import report
from benchmarks.tritune.cell import Cell, Numbers
from benchmarks.tritune.figures_wanted import Wanted, against, wanted

pytestmark = pytest.mark.unit


def results() -> dict[Cell, Numbers]:
    base: Numbers = {"met": 99.9, "changes_a_day": 10.0, "reversals": 0.0, "reloads_a_day": 0.0, "dropped": 0.0}
    found: dict[Cell, Numbers] = {}
    for seed in range(3):
        for policy, hours, violated in (
            ("tuner", 11.0 + seed, 0.2),
            ("O2 lead-time oracle", 10.0, 0.1),
            ("B1 static p99", 30.0, 0.0),
            ("B3 HPA queue:compute, retuned", 15.0, 9.0),
            ("B4 KEDA pending, retuned", 20.0, 0.3),
        ):
            found[Cell(seed, "W7", "m-mid 180", policy)] = base | {"hours": hours, "violated": violated}
    return found


def test_others_are_compared_at_equal_attainment() -> None:
    retuned = ("B3 HPA queue:compute, retuned", "B4 KEDA pending, retuned")
    mine = Cell(0, "W7", "m-mid 180", "tuner")
    assert against(results(), mine, retuned, equal=True) == pytest.approx(11 / 20)
    assert against(results(), mine, retuned) == pytest.approx(11 / 15)
    assert against(results(), mine, ("B9 hill climb",)) is None


def test_a_fixed_number_that_holds_less_is_taken_up_to_one_that_holds_as_much() -> None:
    found = results()
    for seed in range(3):
        peak: Numbers = {"met": 99.0, "hours": 12.0, "violated": 4.0}
        found[Cell(seed, "W7", "m-mid 180", "B1 static peak")] = peak
        enough: Numbers = {"met": 99.0, "hours": 24.0, "violated": 0.1}
        found[Cell(seed, "W7", "m-mid 180", "B1 static enough")] = enough
    figures = {one.name: one for one in wanted(found)}
    assert figures["w7_saved_against_static_peak"].value == pytest.approx(50.0)
    assert figures["w7_saved_against_static_p99"].value == pytest.approx(60.0), "it holds as much as it is"
    assert figures["w7_oracle_saved_against_static_enough"].value == pytest.approx(100 * (1 - 10 / 24))


def test_what_was_not_played_is_said() -> None:
    planned = [Cell(seed, "W2", "", policy) for seed in (0, 1) for policy in ("tuner", "B9 hill climb")]
    planned += [Cell(0, "W3", "", "tuner"), Cell(0, "W8", "pod pending", "tuner")]
    results: dict[Cell, Numbers] = {planned[0]: {"hours": 1.0}, planned[-1]: {"met": 1.0}}
    assert report.played(results, planned) == (
        "2 of 6 runs were played. In part: W2 1 of 4. Not at all: W3. W2 without B9 hill climb."
    )
    assert report.played({one: {} for one in planned}, planned) == "6 of 6 runs were played."


def test_figures_are_of_what_was_played() -> None:
    figures = {one.name: one for one in wanted(results())}
    assert figures["w7_hours_by_oracle_180s"].value == pytest.approx(1.2)
    assert figures["w7_hours_by_oracle_180s"].ok
    assert figures["w7_saved_against_static_p99"].value == pytest.approx(60.0)
    assert "w1_objective_met" not in figures
    assert "w7_hours_by_oracle_600s" not in figures


def test_goals_that_are_missed_are_named() -> None:
    met, short = Wanted("a", (1.0,), "s", 2.0), Wanted("b", (3.0,), "s", 2.0)
    assert report.goals([met, short, Wanted("c", (9.0,), "s")]) == "1 of 2 goals are met. Missed: `b`."
    assert report.goals([met]) == "1 of 1 goals are met."


def test_a_figure_is_a_mean_or_the_worst() -> None:
    one = Wanted("a", (1.0, 3.0), "s", 2.0, reduced="worst")
    assert one.value == 3.0
    assert not one.ok
    assert Wanted("a", (1.0, 3.0), "s", 2.0).ok
    assert Wanted("a", (1.0, 3.0), "s", 1.0, "higher", "worst").value == 1.0
    assert Wanted("a", (1.0, 3.0), "s").ok is None


def test_the_table_is_written_into_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# T\n\nwords\n\n{report.BEGIN}\nold\n{report.END}\nrest\n")
    monkeypatch.setattr(report, "DOCS", page)
    report.write(results(), list(results()), tmp_path, into_docs=True)
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("# T\n\nwords")
    assert text.endswith("rest\n")
    assert "B4 KEDA pending, retuned" in text
    assert "1.1 [" in text or "1.2 [" in text
    with pytest.raises(ValueError, match="lacks"):
        report.between("no marks", "text")
