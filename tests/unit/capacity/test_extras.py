"""What adapters and proposing models take, in numbers that their authors published."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.vllm import SpeculativeMethod
from llmservice.capacity.extras import adapter_numbers, head_parameters
from llmservice.capacity.models import find_repository
from llmservice.reconcile.report import report_capacity
from tests.unit.capacity.asked import planned

pytestmark = pytest.mark.unit

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
POOL = "a100-80gb"


def engine(**options: Any) -> dict[str, Any]:
    return {"engine": {"backend": "vllm", "vllm": options}}


@pytest.mark.parametrize(
    ("repo", "trainable"),
    # "trainable params" that peft prints for rank 16 on every linear layer of these models
    [("meta-llama/Llama-2-7b-hf", 39_976_960), (LLAMA, 41_943_040)],
)
def test_an_adapter_on_every_layer_has_the_parameters_that_peft_counts(repo: str, trainable: int) -> None:
    model = find_repository(repo)
    assert model is not None
    ends = 2 * (model.vocab + model.hidden)
    assert 16 * (adapter_numbers(model, 1, model.layers) - ends) == trainable


def test_slots_are_as_wide_as_the_next_rank_whatever_they_hold() -> None:
    """Rank 20 becomes 32: 2 slots · 32 · (41,943,040 / 16 + 2 · (128,256 + 4,096)) · 2 bytes."""
    adapters = [{"name": "a", "path": "a", "rank": 20}]
    found = planned(LLAMA, POOL, **engine(adapters=adapters, maxAdapterRank=20, maxActiveAdapters=2))
    bare = planned(LLAMA, POOL)
    assert found.memory is not None
    assert bare.memory is not None
    assert found.memory.adapters == 2 * 32 * (2_621_440 + 264_704) * 2
    assert bare.memory.kv_cache - found.memory.kv_cache == found.memory.adapters
    assert report_capacity(found).adapter_bytes == found.memory.adapters
    assert "0.3 GiB for adapters and proposing model" in found.reason


def test_without_an_adapter_there_is_no_room_for_one() -> None:
    found = planned(LLAMA, POOL, **engine(maxAdapterRank=64, maxActiveAdapters=8))
    assert found == planned(LLAMA, POOL)


def test_two_accelerators_share_what_is_split_and_repeat_the_rest() -> None:
    model = find_repository("meta-llama/Llama-2-7b-hf")
    assert model is not None
    # query, key, value: 4,096 + 2,048; output: 2,048 + 4,096; gate and up: 4,096 + 5,504; down: 5,504 + 4,096
    assert adapter_numbers(model, 2, 1) - 2 * (32_000 + 4096) == 4 * 6144 + 3 * 9600


@pytest.mark.parametrize(
    ("repo", "billions"),
    # Li et al., "EAGLE" (2024): trainable parameters of the heads
    [("meta-llama/Llama-2-7b-hf", 0.24), ("meta-llama/Llama-2-13b-hf", 0.37), ("meta-llama/Llama-2-70b-hf", 0.99)],
)
def test_an_eagle_head_has_the_parameters_of_its_paper(repo: str, billions: float) -> None:
    model = find_repository(repo)
    assert model is not None
    found = head_parameters(model, SpeculativeMethod.EAGLE, 1)
    assert found / 1e9 == pytest.approx(billions, abs=0.005)


def test_a_draft_takes_its_weights_and_a_part_of_every_token() -> None:
    """Llama 3.2 1B has 1,235,814,400 parameters, and 16 layers with 8 KV heads of 64: 32 KiB a token in 16 bits."""
    asked = {"method": "Draft", "model": "draft", "repo": "meta-llama/Llama-3.2-1B"}
    found, bare = planned(LLAMA, POOL, **engine(speculative=asked)), planned(LLAMA, POOL)
    assert found.memory is not None
    assert found.memory.draft == 1_235_814_400 * 2
    assert found.kv_bytes_per_token - bare.kv_bytes_per_token == 32 * 1024
    assert found.weights_bytes == bare.weights_bytes
    assert report_capacity(found).draft_bytes == found.memory.draft


def test_an_eagle_head_caches_one_layer_more() -> None:
    found = planned(LLAMA, POOL, **engine(speculative={"method": "Eagle", "model": "head"}))
    assert found.kv_bytes_per_token == planned(LLAMA, POOL).kv_bytes_per_token * 33 // 32


def test_a_draft_that_nobody_knows_is_told_and_not_counted() -> None:
    found = planned(LLAMA, POOL, **engine(speculative={"method": "Draft", "model": "draft"}))
    assert found.memory is not None
    assert found.memory.draft == 0
    assert "The draft model is not counted" in found.reason
    assert "write one as speculative.repo" in found.reason
    named = {"method": "Draft", "model": "draft", "repo": "nobody/knows-it"}
    told = planned(LLAMA, POOL, **engine(speculative=named)).reason
    assert "speculative.repo nobody/knows-it is not among them" in told


def test_a_quantised_draft_takes_what_its_files_take() -> None:
    def draft(repo: str) -> int:
        asked = {"method": "Draft", "model": "draft", "repo": repo}
        memory = planned(LLAMA, POOL, **engine(speculative=asked)).memory
        assert memory is not None
        return memory.draft

    whole, quantised = draft("meta-llama/Llama-2-13b-hf"), draft("TheBloke/Llama-2-13B-chat-AWQ")
    assert 0 < quantised < whole / 3


def test_proposing_from_the_prompt_takes_nothing() -> None:
    found = planned(LLAMA, POOL, **engine(speculative={"method": "Ngram"}))
    assert found == planned(LLAMA, POOL)
