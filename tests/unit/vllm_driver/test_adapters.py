"""A request names one of the service's LoRA adapters; any other name is told with what there is."""

from __future__ import annotations

import json

import pytest

from llmserving.engine import FinishReason, Request, SamplingParameters
from llmserving.parameters import Parameters
from llmvllm.options import EngineOptions
from tests.unit.vllm_driver.fake_core import driven

pytestmark = pytest.mark.unit


def asking(key: int, adapter: str) -> Request:
    return Request(key, prompt="hello", sampling=SamplingParameters(adapter=adapter))


def test_the_adapter_reaches_vllm_with_the_request_and_only_where_one_is_asked() -> None:
    with driven(adapters=("sql", "chat")) as it:
        it.engine.add(asking(1, "sql"))
        it.engine.add(asking(2, ""))
        it.core.settle()
        assert [sampling.get("adapter") for _, _, sampling, _ in it.core.started] == ["sql", None]


def test_an_adapter_that_the_service_lacks_is_refused_with_those_it_has() -> None:
    with driven(adapters=("sql", "chat")) as it:
        it.engine.add(asking(1, "poems"))
        (refused,) = it.engine.step()
        assert (refused.finish_reason, refused.invalid) == (FinishReason.ERROR, True)
        assert "adapter 'poems' is not served: leave it out, or send one of: chat, sql" in refused.error
        assert it.core.started == []


def test_adapters_are_read_from_the_models_parameters_and_are_no_argument_of_vllms() -> None:
    written = {"adapters": json.dumps({"sql": "/models/adapters/sql"}), "enable_lora": "true", "max_lora_rank": "16"}
    found = EngineOptions.from_parameters(Parameters({"model_path": "/models", **written}))
    assert found.adapters == {"sql": "/models/adapters/sql"}
    told = found.engine_arguments({"enable_lora": "bool", "max_lora_rank": "int"})
    assert (told["enable_lora"], told["max_lora_rank"]) == (True, 16)
    assert "adapters" not in told
