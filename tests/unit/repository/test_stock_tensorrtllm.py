"""TensorRT-LLM: the LLM API, and the C++ pipeline of preprocessing, engine and postprocessing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from llmservice.api.plan import MemoryUse
from llmservice.api.validation import validate
from llmservice.repository.errors import RenderError
from llmservice.repository.images import serving_images
from llmservice.repository.proto import from_text
from llmservice.repository.render import Repository, Role
from tests.unit.repository.cases import A100, A100_PAIR, STOCK_CASES, Case, stock_engine
from tests.unit.repository.strategies import stock_tensorrtllm_cases

pytestmark = pytest.mark.unit

PROPERTY = settings(max_examples=20, deadline=None, derandomize=True)
VERSIONS = [image.triton for image in serving_images()]
LLM_API = next(case for case in STOCK_CASES if case.name == "stock-llmapi")
GIB = 2**30
MEMORY = MemoryUse(
    weights=26 * GIB,
    context=GIB,
    communication=0,
    activations=GIB,
    graphs=GIB,
    reserve=2 * GIB,
    kv_cache=40 * GIB,
    outside=8 * GIB,
)


def arguments(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(case.render().files["chat/1/model.yaml"])
    return found


def built(triton: str = "2.71.0", said: dict[str, Any] | None = None, plan: Any = A100, **engine: Any) -> Case:
    return Case("", stock_engine(said, **engine), plan, triton=triton)


def model(case: Case, name: str) -> Any:
    return from_text(case.render().files[f"{name}/config.pbtxt"])


def test_the_llm_api_is_told_what_the_spec_says() -> None:
    told = arguments(LLM_API)
    assert told["model"] == "/models"
    assert told["backend"] == "pytorch"
    assert (told["tensor_parallel_size"], told["max_batch_size"], told["max_num_tokens"]) == (2, 48, 8192)
    assert told["max_seq_len"] == 4096
    assert told["cuda_graph_config"] == {"enable_padding": True}
    assert told["kv_cache_config"] == {"enable_block_reuse": False, "dtype": "auto", "free_gpu_memory_fraction": 0.9}


def test_what_tritons_configuration_says_of_batches_is_what_the_models_code_reads_back() -> None:
    config = LLM_API.render().config(Role.ENGINE)
    told = arguments(LLM_API)["triton_config"]
    assert told["max_batch_size"] == config.max_batch_size == 0
    assert told["decoupled"] is config.model_transaction_policy.decoupled is True


def test_the_code_of_nvidias_models_comes_from_the_image() -> None:
    (only,) = LLM_API.render().models
    assert only.image_code == "/app/all_models/llmapi/tensorrt_llm/1"
    chained = {entry.name: entry.image_code for entry in built(said={"chain": "BLS"}).render().models}
    assert chained == {
        "chat": "/app/all_models/inflight_batcher_llm/tensorrt_llm_bls/1",
        "postprocessing": "/app/all_models/inflight_batcher_llm/postprocessing/1",
        "chat-engine": "",
        "preprocessing": "/app/all_models/inflight_batcher_llm/preprocessing/1",
    }


def test_an_image_before_the_llm_api_is_refused_with_both_ways_out() -> None:
    with pytest.raises(RenderError, match=r"image 25\.04 has no LLM API.*25\.05 or later, or.*runtime: Engine"):
        replace(LLM_API, triton="2.57.0").render()


def test_parameters_that_the_spec_owns_or_that_are_no_object_are_refused() -> None:
    engine = LLM_API.spec["engine"]
    for key, value, says in (
        ("max_seq_len", "12", r"model\.maxLength"),
        ("kv_cache_config", "[]", "no JSON object"),
        ("triton_config", "{}", "operator chooses it"),
    ):
        with pytest.raises(RenderError, match=says) as caught:
            replace(LLM_API, spec=LLM_API.spec | {"engine": engine | {"parameters": {key: value}}}).render()
        assert caught.value.field_path == f"spec.engine.parameters[{key}]"


def test_the_cache_gets_of_the_free_memory_what_keeps_the_whole_within_its_percent() -> None:
    planned = replace(A100_PAIR, memory=MEMORY)
    assert arguments(replace(LLM_API, plan=planned))["kv_cache_config"]["free_gpu_memory_fraction"] == 0.78
    engine = model(built(plan=replace(A100, memory=MEMORY)), "chat-engine")
    assert engine.parameters["kv_cache_free_gpu_mem_fraction"].string_value == "0.78"


@pytest.mark.parametrize("triton", VERSIONS)
@pytest.mark.parametrize("chain", ["Ensemble", "BLS"])
def test_every_mandatory_key_of_the_pipeline_is_there_for_every_image(triton: str, chain: str) -> None:
    case = built(triton, {"chain": chain})
    engine, before, after = (model(case, name) for name in ("chat-engine", "preprocessing", "postprocessing"))
    assert engine.backend == "tensorrtllm"
    assert engine.model_transaction_policy.decoupled
    assert engine.HasField("dynamic_batching")
    assert engine.parameters["gpt_model_type"].string_value == "inflight_fused_batching"
    assert engine.parameters["gpt_model_path"].string_value == "/models"
    assert {config.max_batch_size for config in (engine, before, after, model(case, "chat"))} == {64}
    assert {config.parameters["tokenizer_dir"].string_value for config in (before, after)} == {"/models"}
    required = {tensor.name for tensor in engine.input if not tensor.optional}
    assert required == {"input_lengths", "request_output_len"}
    assert {"context_logits", "generation_logits"} <= {tensor.name for tensor in engine.output}


@pytest.mark.parametrize(
    ("triton", "seed", "least"),
    [
        ("2.57.0", "random_seed", "min_length"),
        ("2.58.0", "seed", "min_tokens"),
    ],
)
def test_an_ensemble_calls_the_engines_tensors_by_their_name_in_the_image(triton: str, seed: str, least: str) -> None:
    ensemble = model(built(triton), "chat")
    step = ensemble.ensemble_scheduling.step[1]
    assert (step.input_map[seed], step.input_map[least]) == ("seed", "min_tokens")
    assert {seed, least} <= {tensor.name for tensor in model(built(triton), "chat-engine").input}


@pytest.mark.parametrize("triton", VERSIONS)
def test_an_ensemble_maps_only_tensors_that_its_steps_have(triton: str) -> None:
    case = built(triton)
    ensemble = model(case, "chat")
    assert not ensemble.backend
    made = {tensor.name for tensor in ensemble.input}
    for step in ensemble.ensemble_scheduling.step:
        config = model(case, step.model_name)
        inputs = {tensor.name: tensor.optional for tensor in config.input}
        assert set(step.input_map) <= inputs.keys()
        assert {name for name, optional in inputs.items() if not optional} <= step.input_map.keys()
        assert set(step.input_map.values()) <= made
        assert set(step.output_map) <= {tensor.name for tensor in config.output}
        made |= set(step.output_map.values())
    assert {tensor.name for tensor in ensemble.output} <= made


def test_bls_has_an_instance_for_each_sequence_of_the_engine() -> None:
    case = built(said={"chain": "BLS", "maxBatchSize": 16})
    (group,) = model(case, "chat").instance_group
    assert group.count == model(case, "chat-engine").max_batch_size == 16
    fewer = built(said={"chain": "BLS"}, parameters={"bls_instance_count": "4"})
    assert model(fewer, "chat").instance_group[0].count == 4
    with pytest.raises(RenderError, match="no count of instances"):
        built(said={"chain": "BLS"}, parameters={"bls_instance_count": "many"}).render()


def test_more_sequences_than_the_engine_was_built_for_are_refused() -> None:
    case = built(said={"maxBatchSize": 8})
    with pytest.raises(RenderError, match="16 is above the 8 sequences") as caught:
        replace(case, spec=case.spec | {"batching": {"maxSequences": 16}}).render()
    assert caught.value.field_path == "spec.batching.maxSequences"


def test_an_engines_tokenizer_may_lie_beside_it() -> None:
    case = next(case for case in STOCK_CASES if case.name == "stock-engine-bls")
    assert model(case, "preprocessing").parameters["tokenizer_dir"].string_value == "/models/tokenizer"


@given(stock_tensorrtllm_cases())
@PROPERTY
def test_any_valid_service_on_tensorrtllm_renders_and_says_the_same_twice(case: Case) -> None:
    assert validate(case.manifest).errors == ()
    repository = case.render()
    assert repository == case.render()
    assert {path.split("/")[0] for path in repository.files} == {entry.name for entry in repository.models}
    assert Repository.from_config_map_data(repository.to_config_map_data()) == repository
