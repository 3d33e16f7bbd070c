"""A wrong or misleading `config.pbtxt` is explained: what, on which line, and what to write instead."""

from __future__ import annotations

import pytest

from llmservice.repository.lint import PbtxtFinding, Severity, lint_pbtxt
from llmservice.repository.pbtxt_fields import written_fields
from tests.unit.repository.cases import CASES, Case
from tests.unit.repository.pbtxt_samples import ERRORS, GOOD, STOCK, WARNINGS, Sample

pytestmark = pytest.mark.unit


def named(sample: Sample) -> str:
    return f"{sample.code}: {sample.says}"


def found(text: str) -> list[PbtxtFinding]:
    return lint_pbtxt(text, "m/config.pbtxt")


def test_a_good_configuration_has_no_finding() -> None:
    assert found(GOOD) == []


@pytest.mark.parametrize("sample", ERRORS, ids=named)
def test_what_triton_refuses_is_one_error(sample: Sample) -> None:
    (finding,) = [finding for finding in found(sample.whole) if finding.severity is Severity.ERROR]
    assert (finding.code, finding.line) == (sample.code, sample.line)
    assert sample.says in finding.text


@pytest.mark.parametrize("sample", [*WARNINGS, *STOCK], ids=named)
def test_what_triton_gets_wrong_is_a_warning(sample: Sample) -> None:
    findings = found(sample.whole)
    assert all(finding.severity is Severity.WARNING for finding in findings)
    (finding,) = [finding for finding in findings if finding.code == sample.code]
    assert finding.line == sample.line
    assert sample.says in finding.text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_operator_renders_has_no_error(case: Case) -> None:
    for path, text in case.render().files.items():
        assert not [finding for finding in lint_pbtxt(text, path) if finding.severity is Severity.ERROR]


def test_every_mistake_of_a_copied_article_is_found_in_one_go() -> None:
    text = """\
name: "m"
backend: "python"
max_batch_size: 32
model_parameters {
  memory_pool { gpu { size: 2048 } }
}
dynamic_batching {
  preserve_ordering: true
  priority_levels { level: 2 }
  max_queue_delay_us: 5000
}
"""
    assert [(finding.line, finding.code) for finding in found(text)] == [
        (4, "syntax-model-parameters"),
        (8, "V9"),
        (9, "syntax-priority-levels"),
        (10, "syntax-unknown-field"),
    ]


@pytest.mark.parametrize("text", ['name: "m', "input [ {", "{", "}", '"x"', "a" * 50, "input { name: [", "\0"])
def test_text_that_is_no_configuration_is_an_error_and_never_a_crash(text: str) -> None:
    assert any(finding.severity is Severity.ERROR for finding in found(text))


def test_a_comment_that_looks_like_a_field_is_none() -> None:
    assert found(GOOD + "# model_parameters { }\n") == []
    assert found(GOOD + 'parameters { key: "priority_levels {" value { string_value: "x" } }\n') == []


def test_a_finding_prints_as_compilers_do() -> None:
    (finding,) = found(GOOD + "max_batch_size: 4\n")
    assert str(finding) == "m/config.pbtxt:6: error syntax-twice: `max_batch_size` is written twice. Keep one."


def test_fields_are_found_with_their_path_and_line() -> None:
    fields = written_fields('a { b: 1\n c [ { d: "}" }, { d: 2 } ] }\ne: <\n f: 1 >')
    assert [(".".join(field.path), field.line) for field in fields] == [
        ("a", 1),
        ("a.b", 1),
        ("a.c", 2),
        ("a.c.d", 2),
        ("a.c", 2),
        ("a.c.d", 2),
        ("e", 3),
        ("e.f", 4),
    ]
