from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from llmservice.api.admission import admission_policy
from llmservice.api.crd import crd
from llmservice.api.generate import generated_files, main, outdated, write

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]


def test_the_generated_files_of_the_repository_are_up_to_date() -> None:
    assert outdated(ROOT) == [], "run `make generate`"


def test_check_names_what_is_not_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    assert main(["--check"]) == 0
    (tmp_path / "docs/api.md").write_text("edited")
    assert main(["--check"]) == 1
    assert "docs/api.md is not up to date" in capsys.readouterr().err


def test_a_second_run_writes_nothing(tmp_path: Path) -> None:
    assert write(tmp_path)
    assert write(tmp_path) == []


def test_the_plain_manifests_are_the_types_manifests() -> None:
    files = generated_files()
    assert yaml.safe_load(files["crds/llmservices.yaml"]) == crd()
    assert next(yaml.safe_load_all(files["crds/admission-policy.yaml"])) == admission_policy()


@pytest.mark.parametrize("path", [path for path in generated_files() if path.startswith("charts/")])
def test_a_chart_copy_has_only_its_own_template_actions(path: str) -> None:
    text = generated_files()[path].replace("{{ `{{` }}", "")
    actions = [line.strip() for line in text.splitlines() if "{{" in line]
    assert all(line.startswith("{{- if .Values.") or line == "{{- end }}" for line in actions)
    assert sum("if" in line for line in actions) == actions.count("{{- end }}")


def test_the_reference_names_every_field_rule_warning_and_reason() -> None:
    page = generated_files()["docs/api.md"]
    for word in (
        "`batching.queue.levels[].timeout`",
        "`own-mig-parallelism`",
        "`trap-mode-none`",
        "`WaitingForGPU`",
        "V25",
    ):
        assert word in page
