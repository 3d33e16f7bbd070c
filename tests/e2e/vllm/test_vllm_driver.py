"""vLLM itself, on the processor, behind gate and driver on a real tritonserver, as `llmservice run` starts it.

vLLM takes half a minute of computing to start, so one server serves all tests; the last one ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.local.running import Run, end, running
from tests.e2e.vllm import asking
from tests.e2e.vllm.asking import SECONDS, series, text
from tests.serving.eventually import eventually, eventually_async

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

EXAMPLE = Path(__file__).parents[3] / "examples" / "smollm2-vllm.yaml"
NAME = "smollm2-vllm"
QUESTION = json.dumps([{"role": "user", "content": "What is the capital of France?"}])
START_SECONDS = 600.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("vllm")
    with running(EXAMPLE, folder, "--log", str(folder / "triton.log")) as run:
        asyncio.run(run.says("curl -sN", within=START_SECONDS))
        yield run


async def stream(run: Run, **body: Any) -> AsyncIterator[dict[str, Any]]:
    async for event in asking.stream(run, NAME, **body):
        yield event


async def answer(run: Run, **body: Any) -> list[dict[str, Any]]:
    return await asking.answer(run, NAME, **body)


async def reaches(run: Run, what: dict[str, float]) -> None:
    """Waits until the series have these values; they are exported a few times a second."""

    async def there() -> bool:
        found = await series(run)
        return all(found.get(name) == value for name, value in what.items())

    await eventually_async(there, SECONDS, str(what))


async def test_a_question_is_answered_token_by_token(served: Run) -> None:
    events = await answer(served, messages=QUESTION, max_tokens=24)
    assert text(events) == "The capital of France is Paris."
    assert len(events) > 3
    last = events[-1]
    assert (last["finish_reason"], last["num_input_tokens"], last["num_output_tokens"]) == ("stop", 37, 8)


async def test_sampling_parameters_reach_vllm(served: Run) -> None:
    seeded = {"text_input": "Once", "max_tokens": 6, "temperature": 1.0, "seed": 7}
    # One after the other: the size of a batch changes the last bits, and with them a token now and then.
    first, again = await answer(served, **seeded), await answer(served, **seeded)
    other = await answer(served, **{**seeded, "seed": 8})
    assert text(first) == text(again) != text(other)

    two = await answer(served, **seeded, n=2)
    assert {event["index"] for event in two if event.get("finish_reason")} == {0, 1}
    assert text(two, 0) != text(two, 1)

    told = await answer(served, text_input="Once", max_tokens=1, logprobs=2)
    (logprob,) = json.loads(told[0]["logprobs"])
    assert logprob["logprob"] == logprob["top_logprobs"][0]["logprob"] < 0
    assert len(logprob["top_logprobs"]) == 2

    stopped = await answer(served, messages=QUESTION, max_tokens=24, stop=" is")
    assert (text(stopped), stopped[-1]["finish_reason"]) == ("The capital of France", "stop")


async def test_what_cannot_be_served_is_refused_in_words(served: Run) -> None:
    (event,) = await answer(served, text_input="word " * 3000, max_tokens=4)
    assert "spec.model.maxLength 2048" in event["error"]


async def test_a_deadline_ends_an_answer_with_what_there_is(served: Run) -> None:
    events = await answer(served, text_input="Once", max_tokens=1500, ignore_eos=True, deadline_ms=1500)
    assert events[-1]["finish_reason"] == "deadline"
    assert events[-1]["num_output_tokens"] < 1500


async def test_sixteen_at_once_are_whole_and_counted(served: Run) -> None:
    before = await series(served)
    answers = await asyncio.gather(
        *(answer(served, text_input=f"Story {i}:", max_tokens=16, ignore_eos=True) for i in range(16))
    )
    assert {events[-1]["num_output_tokens"] for events in answers} == {16}

    async def counted() -> bool:
        found = await series(served)
        return found["llm_engine_tokens_total"] >= before["llm_engine_tokens_total"] + 16 * 16

    await eventually_async(counted, SECONDS, "tokens counted")


async def test_a_client_that_leaves_frees_its_place(served: Run) -> None:
    async for _ in stream(served, text_input="Once", max_tokens=1500, ignore_eos=True):
        break
    await reaches(served, {"llm_engine_running_sequences": 0, "llm_gate_admitted_requests": 0})


async def test_what_nvidias_backend_does_not_tell_is_on_tritons_page(served: Run) -> None:
    await answer(served, text_input="Once", max_tokens=4, ignore_eos=True)
    found = await series(served)
    for name in (
        "llm_engine_waiting_sequences",
        "llm_engine_running_sequences",
        "llm_engine_kv_cache_usage_ratio",
        "llm_engine_preemptions_total",
        "llm_engine_prefix_cache_queries_total",
        "llm_engine_prefix_cache_hits_total",
    ):
        assert name in found
    for name in (
        "llm_engine_steps_total",
        "llm_engine_step_seconds_total",
        "llm_engine_queue_seconds_count",
        "llm_engine_time_to_first_token_seconds_count",
        "llm_engine_inter_token_seconds_count",
        "llm_engine_load_seconds",
        "llm_engine_warm_up_seconds",
    ):
        assert found[name] > 0, name


async def test_a_killed_vllm_fails_its_requests_and_ends_the_server(served: Run) -> None:
    (driver,) = served.instances(f"{NAME}-engine")
    cores = [pid for pid in descendants(driver) if "EngineCore" in title(pid)]
    assert cores
    events = stream(served, text_input="Once", max_tokens=1500, ignore_eos=True)
    await anext(events)

    os.kill(cores[0], signal.SIGKILL)

    (error,) = [event["error"] async for event in events if "error" in event]
    assert "engine" in error
    await served.says("tritonserver ended", within=SECONDS)
    assert "no engine instance is left" in served.said()
    await asyncio.to_thread(end, served.process)
    assert served.processes() == []
    await eventually(lambda: not any(map(lives, (driver, *cores))), SECONDS, "vLLM's processes are gone")


def descendants(pid: int) -> list[int]:
    """Processes below `pid`."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    below, found = {pid}, list[int]()
    while new := [child for child, parent in parents.items() if parent in below and child not in below]:
        below.update(new)
        found += new
    return found


def lives(pid: int) -> bool:
    """Whether there is such a process."""
    return Path(f"/proc/{pid}").exists()


def title(pid: int) -> str:
    """What a process calls itself."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
