"""`kubectl llmservice <TAB>`, in the form that kubectl reads."""

from __future__ import annotations

import pytest

from llmservice.cli.kubectl_completion import answer

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LLMSERVICE_COMPLETE", "_TYPER_COMPLETE_FISH_ACTION", "_TYPER_COMPLETE_ARGS"):
        monkeypatch.setenv(name, "")


def values(*words: str) -> list[str]:
    return [line.partition("\t")[0] for line in answer(words)]


def test_commands_come_first_and_no_files() -> None:
    found = values("")
    assert {"validate", "render", "status", "crds"} <= set(found)
    assert found[-1] == ":4"


def test_a_command_is_completed() -> None:
    assert values("val") == ["validate", ":4"]


def test_options_are_those_of_the_command() -> None:
    assert "--pbtxt" in values("validate", "--")
    assert "--manifests" not in values("validate", "--")


def test_an_argument_that_is_a_file_is_left_to_the_shell() -> None:
    assert values("validate", "exam") == [":0"]
