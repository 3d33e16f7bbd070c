"""NVIDIA's vLLM backend: what it is told, and what differs between the images."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from llmservice.api.validation import validate
from llmservice.repository.errors import RenderError, UnknownTritonVersionError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.images import image_with, serving_images, stock_vllm, triton_version_of
from llmservice.repository.render import Repository, Role
from tests.unit.repository.cases import STOCK_CASES, STOCK_VLLM, Case
from tests.unit.repository.strategies import stock_vllm_cases

pytestmark = pytest.mark.unit

PROPERTY = settings(max_examples=20, deadline=None, derandomize=True)
VERSIONS = [image.triton for image in serving_images()]


def arguments(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(case.render().files["chat/1/model.json"])
    return found


def stock(triton: str = "2.71.0", **engine: Any) -> Case:
    return Case("", {**STOCK_VLLM, "engine": STOCK_VLLM["engine"] | engine}, STOCK_CASES[0].plan, triton=triton)


def test_every_release_from_24_08_to_26_07_is_known() -> None:
    months = [f"{year}.{month:02}" for year in (24, 25, 26) for month in range(1, 13)]
    assert [image.tag for image in serving_images()] == months[months.index("24.08") : months.index("26.07") + 1]
    assert [TritonFeatures.for_version(version).asked for version in VERSIONS] == VERSIONS


@pytest.mark.parametrize("triton", VERSIONS)
def test_every_image_gets_a_decoupled_model_without_triton_batching(triton: str) -> None:
    config = stock(triton).render().config(Role.ENGINE)
    (group,) = config.instance_group
    assert (config.name, config.backend, config.max_batch_size) == ("chat", "vllm", 0)
    assert config.model_transaction_policy.decoupled
    assert not config.HasField("dynamic_batching")
    assert (group.count, list(group.gpus)) == (1, [])
    assert [tensor.name for tensor in config.input if not tensor.optional] == ["text_input"]


@pytest.mark.parametrize(
    ("tag", "last_input", "inputs", "outputs", "metrics"),
    [
        ("24.11", "exclude_input_in_output", 4, 1, "yes"),
        ("24.12", "return_num_output_tokens", 10, 6, "true"),
        ("25.10", "return_num_output_tokens", 10, 6, "true"),
        ("25.11", "embedding_request", 11, 6, "true"),
        ("26.07", "embedding_request", 11, 6, "true"),
    ],
)
def test_tensors_and_metrics_follow_the_image(
    tag: str, last_input: str, inputs: int, outputs: int, metrics: str
) -> None:
    triton = next(image.triton for image in serving_images() if image.tag == tag)
    config = stock(triton).render().config(Role.ENGINE)
    assert (config.input[-1].name, len(config.input), len(config.output)) == (last_input, inputs, outputs)
    assert config.parameters["REPORT_CUSTOM_METRICS"].string_value == metrics


@given(stock_vllm_cases())
@PROPERTY
def test_any_valid_stock_service_renders_one_model_and_says_the_same_twice(case: Case) -> None:
    assert validate(case.manifest).errors == ()
    repository = case.render()
    assert sorted(repository.files) == ["chat/1/model.json", "chat/config.pbtxt"]
    assert not repository.has_gate
    assert repository == case.render()
    assert Repository.from_config_map_data(repository.to_config_map_data()) == repository


def test_the_spec_wins_over_parameters_and_numbers_stay_numbers() -> None:
    told = arguments(STOCK_CASES[1])
    assert told["enforce_eager"] is True
    assert told["max_logprobs"] == 5
    assert told["quantization"] == "awq_marlin"
    assert told["kv_cache_dtype"] == "fp8_e5m2"
    assert told["gpu_memory_utilization"] == 0.85
    assert told["max_num_batched_tokens"] == told["max_num_seqs"] == 48
    assert "ENABLE_VLLM_HEALTH_CHECK" not in told


def test_the_backend_is_told_to_count() -> None:
    assert arguments(stock())["disable_log_stats"] is False


def test_an_argument_of_the_operator_is_refused_with_its_field() -> None:
    with pytest.raises(RenderError, match=r"kvCache\.memoryPercent") as caught:
        stock(parameters={"gpu_memory_utilization": "0.5"}).render()
    assert caught.value.field_path == "spec.engine.parameters[gpu_memory_utilization]"


def test_a_health_check_that_the_image_does_not_know_is_refused() -> None:
    asked = {"ENABLE_VLLM_HEALTH_CHECK": "true"}
    with pytest.raises(RenderError, match=r"image 24\.11 knows no health check.*24\.12 or later"):
        stock("2.52.0", parameters=asked).render()
    config = stock("2.53.0", parameters=asked).render().config(Role.ENGINE)
    assert config.parameters["ENABLE_VLLM_HEALTH_CHECK"].string_value == "true"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/tritonserver:26.07-vllm-python-py3", "2.71.0"),
        ("mirror.example/nvidia/tritonserver:25.07-trtllm-python-py3", "2.59.1"),
        ("nvcr.io/nvidia/tritonserver:19.01-py3", None),
        ("registry.example/own:26.07-py3", None),
    ],
)
def test_nvidias_own_tags_say_their_version(image: str, version: str | None) -> None:
    assert triton_version_of(image) == version


def test_a_version_between_two_images_is_the_older_ones_and_one_before_all_is_refused() -> None:
    assert image_with("2.66.5").tag == "26.02"
    assert image_with("2.99.0").tag == "26.07"
    assert stock_vllm("2.51.0").lora_as_text is False
    assert stock_vllm("2.50.0").lora_as_text is True
    with pytest.raises(UnknownTritonVersionError, match=r"older than 2\.49\.0.*image of 24\.08"):
        image_with("2.48.0")


def test_the_gate_is_not_put_before_a_triton_it_was_never_measured_on() -> None:
    native = replace(stock("2.49.0"), spec={"engine": {"backend": "vllm"}})
    with pytest.raises(RenderError, match=r"2\.51\.0 or later, or driver: Nvidia"):
        native.render()
