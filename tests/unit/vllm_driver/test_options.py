"""Engine arguments that follow from the configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmservice.api.engine import OWNED_PARAMETERS
from llmserving.parameters import Parameters
from llmvllm.cpu import PROCESSES_BYTES, bytes_per_token, on_cpu, processor_flags
from llmvllm.options import AGREED, EngineOptions, OptionError

pytestmark = pytest.mark.unit

KNOWN = {
    "model": "str",
    "enforce_eager": "bool",
    "revision": "str | None",
    "compilation_config": "CompilationConfig",
    "swap_space": "float",
    "enable_logging_iteration_details": "bool",
}
SMOLLM2 = {
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
    "max_position_embeddings": 8192,
}
AVX512 = frozenset({"avx512f", "avx512_bf16"})
GIB = 1 << 30


def options(**values: str) -> EngineOptions:
    return EngineOptions.from_parameters(Parameters({"model_path": "/models", **values}))


def test_fields_of_the_spec_become_arguments() -> None:
    found = options(
        max_sequences="8", max_batch_tokens="512", max_length="1024", dtype="bfloat16", memory_percent="80",
        tensor_parallel="2", pipeline_parallel="3",
    ).engine_arguments(KNOWN)  # fmt: skip
    assert found == {
        "model": "/models",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "max_model_len": 1024,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 512,
        "gpu_memory_utilization": 0.8,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 3,
        "scheduling_policy": "priority",
        "disable_log_stats": True,
        "enable_logging_iteration_details": True,
    }


def test_what_the_spec_leaves_out_is_left_to_vllm() -> None:
    found = options().engine_arguments({})
    assert not found.keys() & {"max_model_len", "max_num_batched_tokens", "enable_logging_iteration_details"}


def test_one_sequence_at_a_time_in_mode_none_and_a_token_for_each_sequence() -> None:
    assert options(mode="None", max_sequences="8").engine_arguments({})["max_num_seqs"] == 1
    assert options(max_sequences="8", max_batch_tokens="2").engine_arguments({})["max_num_batched_tokens"] == 8


def test_arguments_pass_through_as_json_or_text() -> None:
    found = options(
        enforce_eager="true", revision="123", compilation_config='{"mode": 3}', swap_space="0.5"
    ).engine_arguments(KNOWN)
    assert (found["enforce_eager"], found["revision"]) == (True, "123")
    assert (found["compilation_config"], found["swap_space"]) == ({"mode": 3}, 0.5)


def test_what_every_engine_knows_is_no_argument_of_vllms() -> None:
    assert options(warm_up="true").engine_arguments(KNOWN) == options().engine_arguments(KNOWN)


def test_an_unknown_argument_is_named_with_the_closest() -> None:
    with pytest.raises(OptionError, match=r"enforce_eagre.*did you mean enforce_eager"):
        options(enforce_eagre="true").engine_arguments(KNOWN)


def test_everything_the_driver_sets_is_owned_by_the_operator() -> None:
    told = options(max_length="9", max_batch_tokens="20").engine_arguments({})
    assert told.keys() <= OWNED_PARAMETERS.keys()
    assert AGREED - {"device"} <= OWNED_PARAMETERS.keys()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(SMOLLM2))
    return tmp_path


def test_on_a_cpu_the_cache_is_what_the_sequences_can_fill(folder: Path) -> None:
    found = on_cpu(options(model_path=str(folder), max_sequences="4", max_length="1000"), AVX512, (20 * GIB, 24 * GIB))
    per_token = 2 * 30 * 3 * 64 * 2
    assert bytes_per_token(SMOLLM2, 2) == per_token
    assert found.dtype == "bfloat16"
    assert found.arguments["kv_cache_memory_bytes"] == str((4 * 1024 + 128) * per_token)


def test_a_cpu_computes_as_the_files_say_where_it_can(folder: Path) -> None:
    given = options(model_path=str(folder))
    assert on_cpu(given, frozenset({"avx2"}), (20 * GIB, 24 * GIB)).dtype == "float32"
    (folder / "config.json").write_text(json.dumps({**SMOLLM2, "torch_dtype": "float32"}))
    assert on_cpu(given, AVX512, (20 * GIB, 24 * GIB)).dtype == "float32"
    given = options(model_path=str(folder), dtype="float16")
    assert on_cpu(given, AVX512, (20 * GIB, 24 * GIB)).dtype == "float16"


def test_the_cache_keeps_to_its_share_of_the_memory(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(bytes(1000))
    given = options(model_path=str(folder), max_sequences="64", max_length="8192", memory_percent="50")
    found = on_cpu(given, AVX512, (3 * GIB + PROCESSES_BYTES, 4 * GIB))
    assert found.arguments["kv_cache_memory_bytes"] == str(GIB - 1000)
    with pytest.raises(OptionError, match=r"spec\.model\.maxLength.*spec\.kvCache\.memoryPercent"):
        on_cpu(given, AVX512, (2 * GIB + 1000 + PROCESSES_BYTES, 4 * GIB))


def test_on_a_cpu_one_place_for_adapters_stays_empty(folder: Path) -> None:
    adapters = json.dumps({"sql": "/models/sql", "poems": "/models/poems"})
    found = options(model_path=str(folder), adapters=adapters, max_loras="1", max_length="128")
    assert on_cpu(found, AVX512, (100 * GIB, 100 * GIB)).arguments["max_loras"] == "3"
    without = on_cpu(options(model_path=str(folder), max_length="128"), AVX512, (100 * GIB, 100 * GIB))
    assert "max_loras" not in without.arguments


def test_what_the_user_asked_for_stays(folder: Path) -> None:
    found = on_cpu(options(model_path=str(folder), kv_cache_memory_bytes="5"), AVX512, (GIB, GIB))
    assert found.arguments["kv_cache_memory_bytes"] == "5"


def test_a_model_of_another_form_is_left_to_vllm(tmp_path: Path) -> None:
    assert "kv_cache_memory_bytes" not in on_cpu(options(model_path=str(tmp_path)), AVX512, (GIB, GIB)).arguments


def test_flags_of_the_processor(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t\t: fpu avx512_bf16\n")
    assert processor_flags(file) == {"fpu", "avx512_bf16"}
