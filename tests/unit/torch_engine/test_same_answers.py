"""An answer depends on its request alone: not on company, chunks, the prefix cache, preemption or who came first."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from llmserving.engine import Request, SamplingParameters
from llmtorch.engine import TorchEngine
from tests.unit.torch_engine.tiny import Answer, collect, engine_on, greedy, run

pytestmark = pytest.mark.unit

SYSTEM = "You are a poet who answers in as few words as there are. "
PROMPTS = [SYSTEM + "x" * (key % 5) + chr(97 + key % 7) * (key * 3 % 20 + 1) for key in range(32)]


def requests(first: int) -> Iterator[Request]:
    """Greedy and seeded ones in turn, with everything that changes how a token is chosen."""
    for key, prompt in enumerate(PROMPTS):
        request = greedy(first + key, prompt, max_tokens=8 + key % 5, ignore_eos=True)
        if key % 2:
            more = {"temperature": 0.9, "seed": key, "top_k": 9 * (key % 3), "min_p": 0.01 * (key % 4)}
            request = replace(request, sampling=replace(request.sampling, **more))  # type: ignore[arg-type]
        elif key % 4:
            request = replace(request, sampling=replace(request.sampling, repetition_penalty=1.3, min_tokens=9))
        yield request


@pytest.fixture(scope="module", params=["native", "torch"])
def kernels(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def alone(tiny_llama: Path, kernels: str) -> list[list[int]]:
    """The tokens of each request, each the only one of an engine that has seen none before."""
    engine = engine_on(tiny_llama, prefix_caching=False, cache_blocks=64, kernels=kernels)
    return [run(engine, request)[request.key].tokens for request in requests(0)]


@pytest.mark.parametrize(
    "options",
    [
        {"max_sequences": 32, "cache_blocks": 2000},
        {"max_sequences": 32, "cache_blocks": 2000, "max_batch_tokens": 32},
        {"max_sequences": 8, "cache_blocks": 2000, "max_prefill_sequences": 1, "max_prefill_tokens": 5},
        {"max_sequences": 32, "cache_blocks": 60},
        {"max_sequences": 32, "cache_blocks": 60, "prefix_caching": False},
    ],
    ids=["together", "in-chunks", "one-prompt-at-a-time", "preempted", "preempted-without-prefix-cache"],
)
def test_together_as_alone(options: dict[str, object], alone: list[list[int]], kernels: str, tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, kernels=kernels, **options)
    for first in (0, 100):  # the second time the prefix cache knows them
        answers = run(engine, *requests(first))
        assert [answers[first + key].tokens for key in range(len(PROMPTS))] == alone
    status = engine.status()
    assert (status.preemptions > 0) is (options["cache_blocks"] == 60)
    assert (status.prefix_cache_hits > 0) is (options.get("prefix_caching") is not False)


def test_however_they_come_and_whoever_is_more_urgent(alone: list[list[int]], kernels: str, tiny_llama: Path) -> None:
    chance = random.Random(3)
    options = {"max_sequences": 4, "cache_blocks": 70, "max_batch_tokens": 24, "aging_seconds": 1000.0}
    engine = engine_on(tiny_llama, kernels=kernels, **options)
    coming = [replace(request, priority=chance.randint(1, 3)) for request in requests(0)]
    chance.shuffle(coming)
    answers: dict[int, Answer] = defaultdict(Answer)
    while coming or engine.has_work():
        for _ in range(min(len(coming), chance.randint(0, 3))):
            engine.add(coming.pop())
        if engine.has_work():
            collect(engine.step(), answers)
    assert [answers[key].tokens for key in range(len(PROMPTS))] == alone
    assert engine.status().preemptions > 0


def test_an_urgent_request_overtakes_and_the_other_goes_on_where_it_was(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, max_sequences=1)
    low = replace(greedy(1, "Once upon a time", max_tokens=10, ignore_eos=True), priority=2)
    high = replace(greedy(2, "Now", max_tokens=2, ignore_eos=True), priority=1)
    wanted = run(engine_on(tiny_llama), low)[1]
    answers: dict[int, Answer] = defaultdict(Answer)
    engine.add(low)
    for _ in range(4):
        collect(engine.step(), answers)
    engine.add(high)
    while not answers[2].last:
        collect(engine.step(), answers)
        assert len(answers[1].tokens) == 4
    while engine.has_work():
        collect(engine.step(), answers)
    assert (answers[1].tokens, answers[1].text) == (wanted.tokens, wanted.text)
    assert engine.status().preemptions == 1


@pytest.fixture
def engine(tiny_llama: Path) -> TorchEngine:
    return engine_on(tiny_llama, cache_blocks=200)


def test_of_answers_to_one_prompt_each_has_random_numbers_of_its_own(engine: TorchEngine) -> None:
    sampling = SamplingParameters(max_tokens=10, seed=5, ignore_eos=True, n=4)
    first = run_answers(engine, Request(1, prompt=PROMPTS[0], sampling=sampling))
    again = run_answers(engine, *requests(100), Request(1, prompt=PROMPTS[0], sampling=sampling))
    one = run(engine, Request(1, prompt=PROMPTS[0], sampling=replace(sampling, n=1)))[1]
    assert first == again
    assert first[0] == one.tokens
    assert len({tuple(tokens) for tokens in first.values()}) == 4


def run_answers(engine: TorchEngine, *requests: Request) -> dict[int, list[int]]:
    """The tokens of each answer of the request 1, by index."""
    for request in requests:
        engine.add(request)
    tokens: dict[int, list[int]] = defaultdict(list)
    while engine.has_work():
        for output in engine.step():
            if output.key == 1:
                tokens[output.index] += output.token_ids
    return tokens
