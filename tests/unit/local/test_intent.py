"""What a file asks of this host: rendered for its folders and its memory, or refused in words."""

from __future__ import annotations

import pytest

from llmservice.local.errors import LocalError
from llmservice.local.intent import InvalidServiceError, intend
from llmservice.local.overrides import Overrides
from tests.unit.local.manifests import HOST, gate_config, intent, manifest

pytestmark = pytest.mark.unit


def test_gate_and_engine_meet_in_folders_of_this_host() -> None:
    found = intent()
    assert HOST.paths.run_directory in gate_config(found)
    assert HOST.paths.model_path in found.repository.files["chat-engine/config.pbtxt"]
    assert found.plan.fits is True


def test_an_invalid_file_is_refused_as_validate_would() -> None:
    with pytest.raises(InvalidServiceError) as caught:
        intend(manifest(batching={"maxQueueDelay": "5"}), HOST)
    assert [finding.field_path for finding in caught.value.findings] == ["spec.batching.maxQueueDelay"]


def test_a_pool_that_is_not_known_is_the_cpu_of_this_host_and_is_said_so() -> None:
    found = intent(placement={"pool": "a100-80gb"})
    assert found.plan.accelerator == "cpu"
    assert "runs on the CPU" in found.warnings[-1]


def test_a_model_larger_than_the_hosts_memory_is_refused() -> None:
    source = {"huggingFace": {"repo": "meta-llama/Llama-2-13b-chat-hf"}}
    with pytest.raises(LocalError, match=r"needs .* GiB for its weights"):
        intent(model={"source": source, "maxLength": 4096})


def test_a_backend_without_an_engine_is_refused() -> None:
    with pytest.raises(LocalError, match=r"stock backend of tensorrtllm.*: Native and backend: torch or vllm"):
        intent(engine={"backend": "tensorrtllm", "driver": "Nvidia"})


def test_the_command_line_wins_over_the_file() -> None:
    overrides = Overrides(mode="Dynamic", backend="torch", delay="40ms")
    found = intend(overrides.apply(manifest(batching={"maxQueueDelay": "5ms"})), HOST)
    assert found.service.spec.batching.mode == "Dynamic"
    assert "max_queue_delay_microseconds: 40000" in gate_config(found)
    assert overrides.options() == {
        "spec.batching.mode": "--mode Dynamic",
        "spec.engine.backend": "--backend torch",
        "spec.batching.maxQueueDelay": "--delay 40ms",
    }


def test_a_wrong_value_on_the_command_line_is_explained_like_one_in_the_file() -> None:
    with pytest.raises(InvalidServiceError, match=r"40 has no unit\. Write 40ms"):
        intend(Overrides(delay="40").apply(manifest()), HOST)


@pytest.mark.parametrize("spec", [None, "chat", {"batching": 5}])
def test_overrides_leave_what_is_malformed_to_validation(spec: object) -> None:
    assert "mode" not in Overrides(mode="None").apply({"spec": spec})


def test_the_file_is_not_changed_by_overrides() -> None:
    original = manifest()
    Overrides(mode="None").apply(original)
    assert original == manifest()
