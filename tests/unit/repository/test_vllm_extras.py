"""Adapters and speculative decoding, for our driver and for NVIDIA's, in the words of each image's vLLM."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmservice.repository.errors import RenderError
from llmservice.repository.render import Role
from tests.unit.repository.cases import A100, STOCK_VLLM, VLLM_EXTRAS, Case

pytestmark = pytest.mark.unit

ADAPTERS = {"adapters": [{"name": "sql", "path": "adapters/sql", "rank": 8}], "maxAdapterRank": 8}


def stock(triton: str, **options: Any) -> Case:
    return Case("", STOCK_VLLM | {"engine": STOCK_VLLM["engine"] | {"vllm": options}}, A100, triton=triton)


def native(triton: str, **options: Any) -> Case:
    return Case("", {"engine": {"backend": "vllm", "vllm": options}}, A100, triton=triton)


def arguments(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(case.render().files["chat/1/model.json"])
    return found


def test_nvidias_backend_gets_a_list_of_adapters_and_room_for_the_next_rank_there_is() -> None:
    case = stock("2.71.0", **VLLM_EXTRAS)
    told = arguments(case)
    assert (told["enable_lora"], told["max_lora_rank"], told["max_loras"]) == (True, 32, 2)
    assert json.loads(case.render().files["chat/1/multi_lora.json"]) == {
        "sql": "/models/adapters/sql",
        "support": "/adapters/support",
    }


def test_our_driver_is_told_the_same_by_its_parameters() -> None:
    parameters = native("2.71.0", **VLLM_EXTRAS).render().config(Role.ENGINE).parameters
    assert json.loads(parameters["adapters"].string_value)["sql"] == "/models/adapters/sql"
    assert parameters["enable_lora"].string_value == "true"
    assert parameters["max_lora_rank"].string_value == "32"
    assert json.loads(parameters["speculative_config"].string_value) == {
        "method": "ngram",
        "num_speculative_tokens": 5,
        "prompt_lookup_max": 3,
    }


def test_the_oldest_backend_wants_the_switch_as_text() -> None:
    assert arguments(stock("2.49.0", **ADAPTERS))["enable_lora"] == "true"
    assert arguments(stock("2.51.0", **ADAPTERS))["enable_lora"] is True


@pytest.mark.parametrize("make", [stock, native])
def test_a_rank_that_the_images_vllm_has_no_room_for_is_refused(make: Any) -> None:
    with pytest.raises(RenderError, match=r"vLLM 0\.5\.5 of image 24\.12 has room for ranks up to 64") as caught:
        make("2.53.0", **(ADAPTERS | {"maxAdapterRank": 128})).render()
    assert caught.value.field_path == "spec.engine.vllm.maxAdapterRank"
    make("2.54.0", **(ADAPTERS | {"maxAdapterRank": 128})).render()


def test_speculative_decoding_is_one_object_since_25_05_and_single_arguments_before() -> None:
    ngram = {"speculative": {"method": "Ngram", "tokens": 3}}
    old, new = arguments(stock("2.57.0", **ngram)), arguments(stock("2.58.0", **ngram))
    assert (old["speculative_model"], old["num_speculative_tokens"], old["ngram_prompt_lookup_max"]) == (
        "[ngram]",
        3,
        4,
    )
    assert new["speculative_config"]["num_speculative_tokens"] == 3
    assert "speculative_model" not in new
    draft = {"speculative": {"method": "Draft", "model": "draft"}}
    assert arguments(stock("2.57.0", **draft))["speculative_model"] == "/models/draft"
    eagle = {"speculative": {"method": "Eagle3", "model": "/eagle"}}
    assert arguments(stock("2.71.0", **eagle))["speculative_config"] == {
        "method": "eagle3",
        "model": "/eagle",
        "num_speculative_tokens": 4,
    }


def test_an_eagle_by_name_needs_a_later_image() -> None:
    with pytest.raises(RenderError, match=r"takes no Eagle3 by name.*25\.05 or later"):
        stock("2.57.0", speculative={"method": "Eagle3", "model": "/eagle"}).render()


def test_without_adapters_nothing_is_said_of_them() -> None:
    case = stock("2.71.0")
    assert sorted(case.render().files) == ["chat/1/model.json", "chat/config.pbtxt"]
    assert "enable_lora" not in arguments(case)
