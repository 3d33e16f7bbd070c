"""Starting an engine: options, weights in one file or several, and errors that say what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from llmserving.parameters import Mode, ParameterError, Parameters
from llmtorch.config import ModelConfig, ModelFormatError
from llmtorch.kv_cache import block_bytes, number_of_blocks
from llmtorch.loader import cpu_dtype, processor_count
from llmtorch.options import EngineOptions, OptionError
from tests.unit.torch_engine.tiny import engine_on, greedy, make_model, run, write_tokenizer

pytestmark = pytest.mark.unit


@pytest.fixture
def folder(tiny_llama: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may spoil."""
    return shutil.copytree(tiny_llama, tmp_path / "model")


def change(folder: Path, **fields: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return folder


def test_options_come_from_the_parameters_of_the_rendered_config() -> None:
    options = EngineOptions.from_parameters(
        Parameters(
            {"model_path": "/models", "mode": "Static", "max_sequences": "8", "max_length": "512", "slots": "10"}
        )
    )
    assert options == EngineOptions(Path("/models"), Mode.STATIC, max_sequences=8, max_length=512)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "model_path"),
        ({"model_path": "/m", "mode": "Sometimes"}, "Continuous"),
        ({"model_path": "/m", "max_sequences": "many"}, "max_sequences"),
        ({"model_path": "/m", "max_length": "0"}, "max_length"),
    ],
)
def test_a_bad_parameter_is_named(values: dict[str, str], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        EngineOptions.from_parameters(Parameters(values))


def test_sharded_weights_are_the_same_weights(tiny_llama: Path, tmp_path: Path) -> None:
    make_model("llama").save_pretrained(tmp_path, max_shard_size="20KB")
    write_tokenizer(tmp_path)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    answers = [run(engine_on(place), greedy(1, "Once"))[1].tokens for place in (tiny_llama, tmp_path)]
    assert answers[0] == answers[1]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    make_model("llama").save_pretrained(tmp_path, max_shard_size="20KB")
    missing = sorted(tmp_path.glob("model-*.safetensors"))[1]
    missing.unlink()
    with pytest.raises(ModelFormatError, match=missing.name):
        engine_on(tmp_path)


def test_a_folder_without_a_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"config\.json"):
        engine_on(tmp_path)


def test_a_folder_without_weights_says_so(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFormatError, match="no safetensors"):
        engine_on(folder)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM.*LlamaForCausalLM"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "yarn"),
        ({"num_hidden_layers": 3}, "model.layers.2"),
    ],
)
def test_a_model_it_cannot_run_is_refused_in_words(fields: dict[str, object], words: str, folder: Path) -> None:
    with pytest.raises(ModelFormatError, match=words):
        engine_on(change(folder, **fields))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "int4"}, "int4"),
        ({"kv_dtype": "fp8_e5m2"}, "spec.kvCache.dtype"),
        ({"device": "quantum"}, "quantum"),
    ],
)
def test_an_option_it_cannot_honour_is_refused(options: dict[str, object], words: str, tiny_llama: Path) -> None:
    with pytest.raises(OptionError, match=words):
        engine_on(tiny_llama, **options)


def test_the_cache_holds_every_sequence_at_its_longest_where_memory_allows(tiny_llama: Path) -> None:
    config = ModelConfig.load(tiny_llama)
    options = EngineOptions(tiny_llama, max_sequences=3, block_size=16)
    assert number_of_blocks(options, config, 100, torch.float32, torch.device("cpu")) == 3 * 7


def test_a_cache_in_fp8_takes_half_of_one_in_bfloat16_and_its_scales(tiny_llama: Path) -> None:
    config = ModelConfig.load(tiny_llama)
    assert block_bytes(config, 16, torch.bfloat16) == 2 * 2 * 16 * 2 * 8 * 2
    assert block_bytes(config, 16, torch.float8_e4m3fn) == 2 * 2 * 16 * 2 * (8 + 2)


@pytest.mark.parametrize(
    ("capabilities", "dtype"),
    [
        ({"avx2": True, "avx512_f": True, "avx512_bf16": False}, torch.float32),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({}, torch.float32),
    ],
)
def test_a_processor_computes_in_the_type_it_multiplies_in(capabilities: dict[str, bool], dtype: torch.dtype) -> None:
    assert cpu_dtype(capabilities) is dtype


def test_cores_of_the_container_count(tmp_path: Path) -> None:
    unbounded = processor_count(tmp_path)
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert processor_count(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert processor_count(tmp_path) == unbounded


def test_a_config_without_a_field_is_named_with_file_and_field(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "hidden_size"}))
    with pytest.raises(ModelFormatError, match=r"config.json has no 'hidden_size'"):
        ModelConfig.load(folder)


@pytest.mark.parametrize("value", ["many", None, [1]])
def test_a_config_with_nonsense_in_a_field_is_named(folder: Path, value: object) -> None:
    with pytest.raises(ModelFormatError, match=r"config.json is not the config of a model"):
        ModelConfig.load(change(folder, hidden_size=value))
