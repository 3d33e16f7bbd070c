"""`llmservice render`: the repository and the manifests, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.test_validate import run, service_file

pytestmark = pytest.mark.unit


def test_the_repository_is_printed_with_its_paths(tmp_path: Path) -> None:
    code, output = run("render", service_file(tmp_path))
    assert code == 0, output
    assert "# chat/config.pbtxt" in output
    assert "# chat-engine/config.pbtxt" in output
    assert "max_queue_delay_microseconds: 5000" in output


def test_manifests_are_written_without_the_secret(tmp_path: Path) -> None:
    code, output = run("render", service_file(tmp_path), "--manifests", "-o", tmp_path / "out")
    assert code == 0, output
    assert (tmp_path / "out/repository/chat/config.pbtxt").is_file()
    kinds = [m["kind"] for m in yaml.safe_load_all((tmp_path / "out/manifests.yaml").read_text())]
    assert {"Deployment", "Service", "ConfigMap"} <= set(kinds)
    assert "Secret" not in kinds


def test_json_carries_files_and_revision(tmp_path: Path) -> None:
    code, output = run("render", service_file(tmp_path), "--output", "json")
    assert code == 0, output
    (preview,) = json.loads(output)
    assert set(preview["files"]) == {"chat/config.pbtxt", "chat-engine/config.pbtxt"}
    assert len(preview["revision"]) == 8


def test_an_invalid_service_is_not_rendered(tmp_path: Path) -> None:
    code, output = run("render", service_file(tmp_path, batching={"maxSequences": -1}))
    assert code == 2
    assert "spec.batching.maxSequences" in output


def test_an_unknown_pool_is_named_with_the_known_ones(tmp_path: Path) -> None:
    code, output = run("render", service_file(tmp_path, placement={"pool": "h900"}))
    assert code == 2
    assert "h900" in output
    assert "cpu" in output


def test_a_bad_fleet_file_is_named(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("pools: 7")
    code, output = run("render", service_file(tmp_path), "--fleet", fleet)
    assert code == 2
    assert "fleet.yaml" in output


def test_json_names_what_was_written(tmp_path: Path) -> None:
    code, output = run("render", service_file(tmp_path), "--output", "json", "-o", tmp_path / "out")
    assert code == 0, output
    written = [Path(path) for path in json.loads(output)["written"]]
    assert written == [tmp_path / f"out/repository/{model}/config.pbtxt" for model in ("chat", "chat-engine")]
    assert all(path.is_file() for path in written)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    target = tmp_path / "out/repository/chat/config.pbtxt"
    target.mkdir(parents=True)
    code, output = run("render", service_file(tmp_path), "-o", tmp_path / "out")
    assert code == 2
    assert f"{target}: Is a directory" in output


def test_the_job_that_builds_an_engine_is_printed_with_what_to_write_afterwards(tmp_path: Path) -> None:
    source = {"huggingFace": {"repo": "meta-llama/Llama-2-13b-chat-hf"}}
    engine = {"backend": "tensorrtllm", "driver": "Nvidia"}
    asked = service_file(tmp_path, model={"source": source}, engine=engine, placement={"pool": "a100-80gb"})
    code, output = run("build-engine", asked, "--claim", "engines", "--path", "llama2/a100")
    assert code == 0, output
    (job,) = yaml.safe_load_all(output)
    assert job["kind"] == "Job"
    assert 'computeCapability: "8.0"' in output
    assert "path: llama2/a100" in output


def test_an_engine_that_cannot_be_built_is_refused(tmp_path: Path) -> None:
    code, output = run("build-engine", service_file(tmp_path), "--claim", "engines")
    assert code != 0
    assert "spec.engine.backend: only tensorrtllm has engines to build" in output
