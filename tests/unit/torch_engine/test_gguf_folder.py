"""A GGUF file becomes the Hugging Face folder of the same model."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from safetensors.numpy import load_file
from transformers import AutoTokenizer

from llmserving.gguf_folder import convert
from llmserving.weight_progress import ExitCode, Progress, WeightsError
from tests.unit.torch_engine.gguf_files import gguf_tensors, write_gguf
from tests.unit.torch_engine.tiny import END, engine_on, greedy, make_model, run

pytestmark = pytest.mark.unit

SILENT = Progress(io.StringIO())


def converted(tmp_path: Path, quantization: GGMLQuantizationType | None = None, **more: Any) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    convert(write_gguf(tmp_path / "tiny.gguf", quantization, **more), folder, SILENT)
    return folder


def test_every_tensor_is_that_of_the_model_it_was_made_from(tmp_path: Path) -> None:
    tensors = load_file(converted(tmp_path) / "model.safetensors")
    wanted = {name: tensor.numpy() for name, tensor in make_model("llama").state_dict().items()}
    del wanted["lm_head.weight"]
    assert tensors.keys() == wanted.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, wanted[name], err_msg=name)


@pytest.mark.parametrize("quantization", [GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0])
def test_quantised_tensors_are_exactly_what_gguf_dequantises(
    quantization: GGMLQuantizationType, tmp_path: Path
) -> None:
    tensors = load_file(converted(tmp_path, quantization) / "model.safetensors")
    source = gguf_tensors()["blk.1.ffn_gate.weight"]
    wanted = dequantize(quantize(source, quantization), quantization)
    assert not np.array_equal(wanted, source)
    np.testing.assert_array_equal(tensors["model.layers.1.mlp.gate_proj.weight"], wanted)


def test_half_precision_stays_half(tmp_path: Path) -> None:
    tensors = load_file(converted(tmp_path, GGMLQuantizationType.F16) / "model.safetensors")
    assert tensors["model.layers.0.self_attn.q_proj.weight"].dtype == np.float16
    assert tensors["model.norm.weight"].dtype == np.float32


def test_the_engine_runs_the_folder_as_it_runs_the_original(tmp_path: Path, tiny_llama: Path) -> None:
    answers = [run(engine_on(place), greedy(1, "Once"))[1].tokens for place in (tiny_llama, converted(tmp_path))]
    assert answers[0] == answers[1]


def test_the_tokenizer_is_read_by_transformers_too(tmp_path: Path) -> None:
    folder = converted(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.eos_token_id, tokenizer.bos_token_id) == (END, END + 1)
    assert tokenizer.decode(tokenizer.encode("né  2024 <end>")) == "né  2024 <end>"
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == "user:Hi\n"
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == END


def test_a_model_that_wants_a_first_token_gets_it(tmp_path: Path, tiny_llama: Path) -> None:
    folder = converted(tmp_path, first_token=True)
    assert AutoTokenizer.from_pretrained(folder).encode("a")[0] == END + 1
    answers = run(engine_on(folder), greedy(1, "a")), run(engine_on(tiny_llama), greedy(1, "<start>a"))
    assert answers[0][1].tokens == answers[1][1].tokens


def test_constants_are_the_shortest_decimals(tmp_path: Path) -> None:
    config = json.loads((converted(tmp_path) / "config.json").read_text())
    assert config["rms_norm_eps"] == 1e-6
    assert config["tie_word_embeddings"] is True


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"architecture": "mamba"}, "family 'mamba'"),
        ({"pre": "unheard-of"}, "unheard-of.*safetensors"),
    ],
)
def test_a_file_it_cannot_convert_is_refused_in_words(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=words) as caught:
        converted(tmp_path, **more)
    assert caught.value.code is ExitCode.BAD_FORMAT


def test_a_tensor_of_another_model_is_named(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "tiny.gguf", more={"rope_freqs.weight": np.ones(4, np.float32)})
    with pytest.raises(WeightsError, match=r"rope_freqs\.weight"):
        convert(source, tmp_path, SILENT)


def test_what_is_no_gguf_file_is_said(tmp_path: Path) -> None:
    source = tmp_path / "wrong.gguf"
    source.write_bytes(b"<html>not found</html>")
    with pytest.raises(WeightsError, match=r"wrong\.gguf is not a readable GGUF file") as caught:
        convert(source, tmp_path, SILENT)
    assert caught.value.code is ExitCode.BAD_FORMAT


def test_a_disk_that_is_too_small_is_said_before_anything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(WeightsError, match="are free") as caught:
        convert(write_gguf(tmp_path / "tiny.gguf"), folder, SILENT, free_bytes=1000)
    assert caught.value.code is ExitCode.DISK_FULL
    assert not list(folder.iterdir())
