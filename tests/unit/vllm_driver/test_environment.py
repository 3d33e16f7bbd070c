"""What vLLM reads before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmvllm.environment import prepare
from llmvllm.options import EngineOptions

pytestmark = pytest.mark.unit


def test_vllm_spawns_and_the_user_goes_first() -> None:
    environment = {"VLLM_LOGGING_COLOR": "1"}
    prepare(EngineOptions(Path("/models")), environment)
    assert environment == {
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_COLOR": "1",
    }


def test_eager_means_that_nothing_is_compiled() -> None:
    environment: dict[str, str] = {}
    prepare(EngineOptions(Path("/models"), arguments={"enforce_eager": "true"}), environment)
    assert environment["TORCH_COMPILE_DISABLE"] == "1"


def test_an_instance_sees_the_device_that_triton_gave_it() -> None:
    environment: dict[str, str] = {}
    prepare(EngineOptions(Path("/models"), device="cuda:3"), environment)
    assert environment["CUDA_VISIBLE_DEVICES"] == "3"
