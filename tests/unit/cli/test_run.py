"""`llmservice run`, as far as it comes without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from llmservice.cli import run as run_command
from llmservice.local.errors import LocalError
from tests.unit.cli.test_validate import SERVICE, run, service_file

pytestmark = pytest.mark.unit


def test_an_invalid_file_is_told_as_validate_tells_it(tmp_path: Path) -> None:
    code, output = run("run", "-f", service_file(tmp_path, batching={"maxQueueDelay": "5"}))
    assert code == 1
    assert "LLMService/chat: invalid" in output
    assert "spec.batching.maxQueueDelay: 5 has no unit. Write 5ms" in output


def test_a_wrong_override_is_told_the_same_way(tmp_path: Path) -> None:
    code, output = run("run", "-f", service_file(tmp_path), "--mode", "Sometimes")
    assert code == 1
    assert "spec.batching.mode" in output


def test_one_service_runs_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump_all([SERVICE, SERVICE]))
    code, output = run("run", "-f", path)
    assert code == 2
    assert "holds 2 LLMServices" in output


def test_a_host_that_cannot_serve_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object) -> None:
        raise LocalError("pip install 'triton-llm-operator[serving,tritonserver]'")

    monkeypatch.setattr(run_command, "require_serving", lacking)
    code, output = run("run", "-f", service_file(tmp_path))
    assert code == 1
    assert output.strip() == "error: pip install 'triton-llm-operator[serving,tritonserver]'"


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/cache/backends")

    monkeypatch.setattr(run_command, "require_serving", full)
    code, output = run("run", "-f", service_file(tmp_path))
    assert code == 1
    assert output.strip() == "error: /cache/backends: No space left on device"
