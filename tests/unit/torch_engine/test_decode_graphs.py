"""Captured decoding steps: which shape a batch gets, what its rows are told, and that replayed steps say the same.

A stand-in captures: it keeps the work and does it again at each replay, as a GPU would by the same addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llmtorch import loader
from llmtorch.decode_graphs import Replay
from llmtorch.decode_inputs import FREE_BLOCKS, DecodeInputs, Shape, Shapes
from llmtorch.options import EngineOptions
from llmtorch.scheduler import Chunk
from llmtorch.sequence import Sequence
from llmtorch.step_batch import StepBatch, build_step
from tests.unit.torch_engine.tiny import engine_on, greedy, run

pytestmark = pytest.mark.unit

FAMILIES = ("llama", "llama3", "mistral", "mistral-window", "qwen2", "qwen2-window", "qwen3")
PROMPTS = ("Once upon a time", "a", "The quick brown fox jumps over the lazy dog", "1, 2, 3,", "x" * 50)
BLOCK = 4
CPU = torch.device("cpu")


class Recorder:
    """Counts what was captured and what was replayed."""

    def __init__(self) -> None:
        self.captured = 0
        self.replayed = 0

    def capture(self, work: Callable[[], None]) -> Replay:
        self.captured += 1

        def replay() -> None:
            self.replayed += 1
            work()

        return replay


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setattr(loader, "choose_capturer", lambda options, device: found)
    return found


def sequence(key: int, computed: int) -> Sequence:
    """One whose last token is to be computed; its blocks are its own."""
    tokens = [100 * key + at for at in range(computed + 1)]
    blocks = [1000 * key + at for at in range(computed // BLOCK + 1)]
    return Sequence(key, tokens, 1, (0.0, key), num_computed=computed, blocks=blocks)


def seen(step: StepBatch, window: int | None) -> list[list[int]]:
    """For each row the slots of the cache that it sees, in the order of its tokens."""
    found = []
    for group in step.views[window].groups:
        tables = group.blocks.view(group.end - group.start, -1)
        for table, mask in zip(tables.tolist(), group.mask[:, 0, 0].tolist(), strict=True):
            slots = [block * BLOCK + at for block in table for at in range(BLOCK)]
            found.append([slot for slot, weight in zip(slots, mask, strict=True) if weight == 0])
    return found


@pytest.mark.parametrize(
    ("tables", "shape"),
    [
        ([1], Shape(1, 8)),
        ([3, 9], Shape(2, 16)),
        ([8] * 5, Shape(8, 8)),
        ([100] * 13, Shape(16, 128)),
        ([20] * 24, Shape(24, 32)),  # the largest batch and the longest table need be no power of two
        ([300], Shape(1, 300)),
    ],
)
def test_a_batch_has_the_smallest_shape_that_holds_it(tables: list[int], shape: Shape) -> None:
    assert Shapes(24, 300).choose(tables) == shape


@pytest.mark.parametrize("tables", [[1] * 25, [301], [300] + [2] * 15], ids=["too many", "too long", "mostly padding"])
def test_some_batches_are_for_no_shape(tables: list[int]) -> None:
    assert Shapes(24, 300).choose(tables) is None


@given(st.lists(st.integers(1, 2048), min_size=1, max_size=64))
def test_a_shape_holds_its_batch_and_reads_little_else(tables: list[int]) -> None:
    shape = Shapes(64, 2048).choose(tables)
    if shape is None:
        assert max(tables) > FREE_BLOCKS // 64
        return
    assert shape.rows >= len(tables)
    assert shape.blocks >= max(tables)
    assert shape.rows * shape.blocks <= max(FREE_BLOCKS, 2 * sum(tables))


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.sampled_from([(None,), (9,), (None, 5)]))
def test_rows_are_told_what_a_step_by_operators_tells_them(lengths: list[int], windows: tuple[int | None, ...]) -> None:
    lengths.sort()  # as that one orders its rows
    chunks = [Chunk(sequence(key, length), 1) for key, length in enumerate(lengths, 1)]
    expected = build_step(chunks, BLOCK, CPU, torch.float32, windows)
    shape, inputs = Shape(8, 16), DecodeInputs(BLOCK, windows, scrap=7)
    numbers = inputs.fill(chunks, shape)
    assert len(numbers) == inputs.size(shape)
    found = inputs.step(torch.tensor(numbers), shape, torch.arange(8), torch.float32)
    rows = len(chunks)
    for name in ("token_ids", "positions", "slots"):
        assert torch.equal(getattr(found, name)[:rows], getattr(expected, name)), name
    padding = found.slots[rows:].tolist()
    assert all(slot // BLOCK == 7 for slot in padding)
    for window in windows:
        assert seen(found, window)[:rows] == seen(expected, window)
        assert seen(found, window)[rows:] == [[7 * BLOCK]] * len(padding)


@pytest.mark.parametrize("cache", ["Auto", "fp8_e4m3"])
@pytest.mark.parametrize("family", FAMILIES)
def test_replayed_steps_give_the_same_tokens(
    family: str, cache: str, family_folder: Callable[[str], Path], recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [greedy(key, prompt, max_tokens=6 + key) for key, prompt in enumerate(PROMPTS)]
    replaying = run(engine_on(family_folder(family), kernels="torch", kv_dtype=cache), *requests)
    assert 1 <= recorder.captured < recorder.replayed
    monkeypatch.undo()
    plain = run(engine_on(family_folder(family), kernels="torch", kv_dtype=cache), *requests)
    assert {key: answer.tokens for key, answer in replaying.items()} == {
        key: answer.tokens for key, answer in plain.items()
    }


def test_a_shape_is_captured_once_and_steps_with_prompts_never(tiny_llama: Path, recorder: Recorder) -> None:
    engine = engine_on(tiny_llama, kernels="torch", max_batch_tokens=8)
    run(engine, greedy(1, "x" * 30, max_tokens=2))  # four steps of its prompt, one of decoding
    assert (recorder.captured, recorder.replayed) == (1, 1)
    run(engine, greedy(2, "x" * 20, max_tokens=8))
    assert (recorder.captured, recorder.replayed) == (1, 8)


def test_without_memory_for_a_capture_operators_compute_the_step(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        tries = 0

        def capture(self, work: Callable[[], None]) -> Replay:
            self.tries += 1
            raise torch.OutOfMemoryError("full")

    full = Full()
    plain = run(engine_on(tiny_llama, kernels="torch"), greedy(1, "a", max_tokens=3))
    monkeypatch.setattr(loader, "choose_capturer", lambda options, device: full)
    answered = run(engine_on(tiny_llama, kernels="torch"), greedy(1, "a", max_tokens=3))
    assert answered[1].tokens == plain[1].tokens
    assert full.tries == 1, "a shape is tried once"


def test_padding_changes_no_block_that_sequences_may_have(tiny_llama: Path, recorder: Recorder) -> None:
    """Three rows in a shape of four, in a cache that they fill."""
    engine = engine_on(tiny_llama, kernels="torch", cache_blocks=9)
    together = run(engine, *(greedy(key, "ab", max_tokens=10) for key in range(3)))
    alone = run(engine_on(tiny_llama, kernels="torch", cache_blocks=12), greedy(0, "ab", max_tokens=10))
    assert recorder.replayed > 0
    assert [answer.tokens for answer in together.values()] == [alone[0].tokens] * 3


def test_nothing_is_captured_on_a_processor_or_where_it_is_turned_off() -> None:
    options = EngineOptions(Path("/nowhere"))
    assert loader.choose_capturer(options, CPU) is None
    off = EngineOptions(Path("/nowhere"), cuda_graphs=False)
    assert loader.choose_capturer(off, torch.device("cuda")) is None
