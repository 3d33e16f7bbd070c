"""LoRA adapters and engine parameters of a real vLLM on the processor, asked through gate, driver and OpenAI's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.local.running import Run, running
from tests.e2e.vllm.asking import SECONDS, answer, series, text
from tests.e2e.vllm.lora import RANK, write_adapter
from tests.openai_contract import ADAPTER, ADAPTER_CASES, MODEL, Case, Served
from tests.serving.eventually import eventually_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

START_SECONDS = 600.0
OTHER = "prose"
PARAMETERS = {
    "enforce_eager": "true",
    # As in a `model.json`: a number, an object.
    "max_logprobs": "2",
    "compilation_config": '{"mode": 0}',
    "warm_up": "true",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("adapters")
    names = (ADAPTER, OTHER)
    paths = {name: write_adapter(folder / name, smollm2, seed) for seed, name in enumerate(names)}
    vllm = {
        "adapters": [{"name": name, "path": str(path), "rank": RANK} for name, path in paths.items()],
        "maxAdapterRank": 8,
        "maxActiveAdapters": 2,
    }
    spec: dict[str, Any] = {
        "model": {"source": {"hostPath": {"path": str(smollm2)}}, "maxLength": 1024},
        "engine": {"backend": "vllm", "parameters": PARAMETERS, "vllm": vllm},
        "batching": {"mode": "Continuous", "maxSequences": 4},
        "placement": {"pool": "cpu"},
        "tuning": {"mode": "Off"},
    }
    file = folder / "service.yaml"
    manifest = {"apiVersion": "triton-llm.dev/v1alpha1", "kind": "LLMService", "metadata": {"name": MODEL}}
    file.write_text(yaml.safe_dump({**manifest, "spec": spec}), encoding="utf-8")
    with running(file, folder, "--log", str(folder / "triton.log")) as run:
        asyncio.run(run.says("curl -sN", within=START_SECONDS))
        yield run


async def said(run: Run, prompt: str, adapter: str = "") -> str:
    """The greedy answer to `prompt`."""
    asked = {"adapter": adapter} if adapter else {}
    events = await answer(run, MODEL, text_input=prompt, max_tokens=12, ignore_eos=True, **asked)
    assert events[-1].get("num_output_tokens") == 12, events[-1]
    return text(events)


async def test_each_adapter_says_something_of_its_own_alone_and_beside_the_others(served: Run) -> None:
    prompt = "The capital of France is"
    alone = {adapter: await said(served, prompt, adapter) for adapter in ("", ADAPTER, OTHER)}
    assert len(set(alone.values())) == 3
    together = await asyncio.gather(*(said(served, prompt, adapter) for adapter in alone for _ in range(2)))
    assert list(together) == [one for one in alone.values() for _ in range(2)]


async def test_an_adapter_that_is_not_served_is_refused_with_those_that_are(served: Run) -> None:
    (event,) = await answer(served, MODEL, text_input="Once", max_tokens=4, adapter="letters")
    assert f"send one of: {ADAPTER}, {OTHER}" in event["error"]


async def test_what_an_adapter_computed_is_never_taken_for_what_the_model_did(served: Run) -> None:
    """Long enough for blocks of the prefix cache, which belong to one adapter."""
    prompt = "A queue is a line of those who wait. " * 40
    plain = await said(served, prompt)
    adapted = await said(served, prompt, ADAPTER)
    assert plain != adapted

    async def found_again() -> bool:
        """Of both prompts more than half; counters are exported a few times a second."""
        return (await series(served))["llm_engine_prefix_cache_hits_total"] > 400

    assert await said(served, prompt) == plain
    assert await said(served, prompt, ADAPTER) == adapted
    await eventually_async(found_again, SECONDS, "both prompts were found in the cache")


async def test_engine_parameters_reach_vllm_as_what_they_mean(served: Run) -> None:
    told = await answer(served, MODEL, text_input="Once", max_tokens=1, logprobs=2)
    assert len(json.loads(told[0]["logprobs"])[0]["top_logprobs"]) == 2
    (refused,) = await answer(served, MODEL, text_input="Once", max_tokens=1, logprobs=3)
    assert "logprobs" in refused["error"]
    assert "2" in refused["error"]


@pytest.mark.parametrize("case", ADAPTER_CASES.values(), ids=ADAPTER_CASES)
async def test_to_clients_of_openais_api_an_adapter_is_a_model(case: Case, served: Run) -> None:
    async def idle() -> bool:
        return (await series(served))["llm_gate_admitted_requests"] == 0

    url = served.openai_url().removesuffix("/v1")

    await case(Served(url, idle))
