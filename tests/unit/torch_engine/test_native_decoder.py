"""The compiled kernels: what torch's operators say, and for each row the same whatever else a step holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from llmtorch import kv_cache, loader, native_library
from llmtorch.config import ModelConfig
from llmtorch.loader import load_runner
from llmtorch.native_decoder import NativeDecoder, StepBuffers, suits
from llmtorch.native_library import builds_for
from llmtorch.options import EngineOptions, OptionError
from llmtorch.runner import NativeRunner, Runner
from llmtorch.scheduler import Chunk
from tests.unit.torch_engine.scheduling import sequence
from tests.unit.torch_engine.test_equals_transformers import FAMILIES

pytestmark = pytest.mark.unit

BLOCK = 4
LENGTHS = (37, 1, 50, 7)
ROOM = 20  # blocks of each sequence
CROWD = 3
"""So many times all sequences: enough for key heads of a sequence to attend in one task (`BUSY` in `decoder.cpp`)."""
BUILDS = [(name, build) for name in ("float32", "bfloat16") for build in builds_for(getattr(torch, name))]
DTYPES = [name for name in ("float32", "bfloat16") if builds_for(getattr(torch, name))]


def runner(folder: Path, kernels: str, dtype: str = "float32", kv_dtype: str = "Auto") -> Runner:
    cache_blocks = ROOM * len(LENGTHS) * CROWD
    options = EngineOptions(
        folder, dtype=dtype, kv_dtype=kv_dtype, kernels=kernels, block_size=BLOCK, cache_blocks=cache_blocks, threads=2
    )
    return load_runner(options, ModelConfig.load(folder), 128, torch.device("cpu"))[0]


def steps(runner: Runner, cuts: Sequence[Sequence[int]]) -> list[list[Tensor]]:
    """Logits of each sequence in turn; `cuts` are the pieces its prompt comes in, then it decodes three tokens.

    There may be several times as many as `LENGTHS`. Pieces and tokens of the same number share a step.
    """
    chance = torch.Generator().manual_seed(3)
    sequences = []
    lengths = LENGTHS * (len(cuts) // len(LENGTHS))
    for key, length in enumerate(lengths):
        one = sequence(key, length)
        one.tokens = torch.randint(0, 250, (length,), generator=chance).tolist()
        one.blocks = list(range(key * ROOM, (key + 1) * ROOM))
        sequences.append(one)
    found: list[list[Tensor]] = [[] for _ in lengths]
    for index in range(max(map(len, cuts)) + 3):
        chunks = []
        for one, pieces in zip(sequences, cuts, strict=True):
            if index >= len(pieces) + 3:
                continue
            if index >= len(pieces):
                one.tokens.append(index - len(pieces))
            chunks.append(Chunk(one, pieces[index] if index < len(pieces) else 1))
        giving = [chunk.sequence.key for chunk in chunks if chunk.gives_token]
        for key, logits in zip(giving, runner.logits(chunks).clone(), strict=True):
            found[key].append(logits)
        for chunk in chunks:
            chunk.sequence.num_computed += chunk.count
    return found


def test_this_processor_has_kernels(tiny_llama: Path) -> None:
    assert isinstance(runner(tiny_llama, "auto"), NativeRunner)


def test_the_cache_gets_what_is_left_once_the_weights_are_laid_out(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    pack, count = NativeDecoder._pack, kv_cache.number_of_blocks

    def packed(*arguments: Any) -> None:
        order.append("weights")
        pack(*arguments)

    def counted(*arguments: Any) -> int:
        order.append("cache")
        return count(*arguments)

    monkeypatch.setattr(NativeDecoder, "_pack", packed)
    monkeypatch.setattr(loader, "number_of_blocks", counted)
    runner(tiny_llama, "native")
    assert len(order) > 1
    assert order.index("cache") == len(order) - 1


@pytest.mark.parametrize("kv_dtype", ["Auto", "fp8_e4m3"])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_torch(family: str, kv_dtype: str, family_folder: Callable[[str], Path]) -> None:
    folder = family_folder(family)
    cuts = [(20, 17), (1,), (50,), (7,)]
    native, plain = (steps(runner(folder, name, kv_dtype=kv_dtype), cuts) for name in ("native", "torch"))
    for ours, wanted in zip(native, plain, strict=True):
        torch.testing.assert_close(torch.stack(ours), torch.stack(wanted), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("dtype", "build"), BUILDS)
def test_the_shapes_of_a_real_model(dtype: str, build: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer of SmolLM2: three query heads share a key head of 64 numbers, and matrices have no padding.

    In every build that this processor runs, not only in the one that it would take.
    """
    monkeypatch.setattr(native_library, "builds_for", lambda _: [build])
    torch.manual_seed(1)
    sizes: dict[str, Any] = {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    }
    config = LlamaConfig(**sizes, vocab_size=300, num_hidden_layers=1, tie_word_embeddings=True, initializer_range=0.05)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    native, plain = (
        steps(runner(tmp_path, name, dtype), [(20, 17), (1,), (50,), (7,)]) for name in ("native", "torch")
    )
    allowed = 1e-4 if dtype == "float32" else 0.15  # of logits up to 6
    for ours, wanted in zip(native, plain, strict=True):
        assert (torch.stack(ours) - torch.stack(wanted)).abs().max() < allowed


@pytest.mark.parametrize("kv_dtype", ["Auto", "fp8_e4m3"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", ["llama", "mistral-window", "qwen3"])
def test_to_the_last_bit_a_row_depends_on_its_sequence_alone(
    family: str, dtype: str, kv_dtype: str, family_folder: Callable[[str], Path]
) -> None:
    """However a prompt is cut, whatever shares the step, and wherever in it the row is."""
    model = runner(family_folder(family), "native", dtype, kv_dtype)
    whole = steps(model, [(length,) for length in LENGTHS])
    pieces = steps(model, [(5, 1, 31), (1,), (17, 32, 1), (2, 2, 3)])
    crowd = steps(model, [(length,) for length in LENGTHS * CROWD])[: len(LENGTHS)]
    for one, *others in zip(whole, pieces, crowd, strict=True):
        assert all(torch.equal(torch.stack(one), torch.stack(other)) for other in others)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_likeliest_token_is_that_of_the_logits(dtype: str, tiny_llama: Path) -> None:
    model = runner(tiny_llama, "native", dtype)
    chunks = []
    for key, length in enumerate(LENGTHS):
        one = sequence(key, length)
        one.tokens = [(key * 31 + at * 7) % 250 for at in range(length)]
        one.blocks = list(range(key * ROOM, (key + 1) * ROOM))
        chunks.append(Chunk(one, length))
    assert model.likeliest(chunks) == model.logits(chunks).argmax(dim=-1).tolist()


def test_a_token_that_the_model_does_not_have_fails_the_step_alone(tiny_llama: Path) -> None:
    model = runner(tiny_llama, "native")
    one = sequence(0, 2)
    one.blocks, one.tokens = [0], [5, 258]
    with pytest.raises(RuntimeError, match="outside the vocabulary of 258"):
        model.logits([Chunk(one, 2)])
    one.tokens = [5, 257]
    assert model.logits([Chunk(one, 2)]).shape == (1, 258)


def test_more_in_a_step_than_ever_before() -> None:
    buffers = StepBuffers(rows=4, sequences=1)
    chunks = []
    for key in range(5):
        one = sequence(key, 30)
        one.tokens, one.blocks = list(range(key, key + 30)), list(range(100 * key, 100 * key + 80))
        chunks.append(Chunk(one, 30 if key else 29))
    buffers.fill(chunks)
    assert (buffers.rows, buffers.num_chunks, buffers.wanted) == (149, 5, 4)
    assert buffers.tokens[:149].tolist() == [*range(29), *(key + at for key in range(1, 5) for at in range(30))]
    assert buffers.chunks[:5].tolist() == [[0, 29, 0, 0], *([30 * key - 1, 30, 0, 80 * key] for key in range(1, 5))]
    assert buffers.tables[80:83].tolist() == [100, 101, 102]
    assert np.array_equal(buffers.last_rows[:4], [58, 88, 118, 148])


def test_the_kernels_count_the_time_of_each_part_of_a_step(tiny_llama: Path) -> None:
    native = runner(tiny_llama, "native")
    assert set(native.part_seconds().values()) == {0.0}
    one = sequence(0, [1, 2, 3])
    one.blocks = [0]
    native.likeliest([Chunk(one, 3)])
    first = native.part_seconds()
    native.likeliest([Chunk(one, 3)])
    second = native.part_seconds()
    assert all(0.0 < first[part] < second[part] < 1.0 for part in first)
    assert runner(tiny_llama, "torch").part_seconds() == {}


def test_unknown_kernels_and_those_that_cannot_compute_the_type(tiny_llama: Path) -> None:
    with pytest.raises(OptionError, match="kernels 'fast' are unknown: write one of auto, native, torch"):
        runner(tiny_llama, "fast")
    with pytest.raises(OptionError, match=r"none are compiled for torch\.float16"):
        runner(tiny_llama, "native", "float16")


def test_heads_without_room_in_the_kernels_are_torchs(tiny_llama: Path) -> None:
    config = ModelConfig.load(tiny_llama)
    assert suits(config)
    assert not suits(replace(config, head_dim=512))
    assert not suits(replace(config, head_dim=7))
    assert not suits(replace(config, num_heads=71, num_kv_heads=1))
