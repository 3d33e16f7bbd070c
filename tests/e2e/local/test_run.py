"""A service on this host, from `llmservice run` to the last token of a stream that outlives Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from llmservice.repository.gate_config import GATE_INSTANCES
from tests.e2e.local.running import Run, running
from tests.serving.eventually import eventually

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[3] / "examples" / "smollm2.yaml"
QUESTION = json.dumps([{"role": "user", "content": "What is the capital of France?"}])
LONG = 160


async def stream(run: Run, **body: Any) -> AsyncIterator[dict[str, Any]]:
    """The events of one request."""
    url = f"http://127.0.0.1:{run.http_port()}/v2/models/smollm2/generate_stream"
    body = {"stream": True, "temperature": 0, **body}
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        async for line in response.content:
            if line.startswith(b"data:"):
                yield json.loads(line[5:])


async def test_it_answers_follows_an_edit_and_drains_without_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    shutil.copyfile(EXAMPLE, file)
    with running(file, tmp_path, "--mode", "Continuous") as run:
        await run.says("/generate_stream", within=180)
        answer = "".join([event.get("text_output", "") async for event in stream(run, messages=QUESTION)])
        assert answer == "The capital of France is Paris."
        async with openai.AsyncOpenAI(base_url=run.openai_url(), api_key="none", timeout=60) as client:
            asked = client.chat.completions.create(
                model="smollm2",
                messages=[{"role": "user", "content": "What is the capital of France?"}],
                temperature=0,
            )
            assert (await asked).choices[0].message.content == "The capital of France is Paris."

        file.write_text(file.read_text().replace("maxSequences: 16", "maxSequences: 8\n    maxQueueDelay: 40ms"))
        await run.says("edit: spec.batching.maxSequences needs a restart", within=60)
        await run.says("applied in ", within=60)
        await run.says("delay 40ms", within=60)
        assert run.processes()
        left = run.shared_memory()
        assert left

        async with asyncio.TaskGroup() as tasks:
            first = asyncio.Event()
            events = tasks.create_task(collect(run, first))
            await first.wait()
            run.interrupt()
        assert events.result()[-1]["num_output_tokens"] == LONG
        assert events.result()[-1]["finish_reason"] == "length"

        await eventually(lambda: run.process.poll() is not None, within=60, what="the command ends")
        assert run.process.returncode == 0
        assert "stopped after all streams had ended" in run.said()
        assert run.processes() == []
        assert [path for path in left if path.exists()] == []
        assert list(run.temporary.iterdir()) == []


async def test_a_server_that_ends_is_started_again_on_the_same_ports(tmp_path: Path) -> None:
    with running(EXAMPLE, tmp_path) as run:
        await run.says("/generate_stream", within=180)
        gates = run.instances("smollm2")
        assert len(gates) == GATE_INSTANCES
        os.kill(gates[0], signal.SIGKILL)
        await run.says("tritonserver ended: a gate process", within=60)
        await run.says("it serves again, on the same ports", within=60)
        answer = [event async for event in stream(run, text_input="Once", max_tokens=2)]
        assert answer[-1]["num_output_tokens"] == 2


async def test_a_command_that_is_killed_takes_its_server_along_and_a_lost_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    shutil.copyfile(EXAMPLE, file)
    with running(file, tmp_path) as run:
        await run.says("/generate_stream", within=180)
        file.unlink()
        await run.says("service.yaml is gone: serving what it said before", within=60)
        answer = [event async for event in stream(run, text_input="Once", max_tokens=2)]
        assert answer[-1]["num_output_tokens"] == 2

        left = run.shared_memory()
        assert left
        run.process.kill()
        await eventually(lambda: run.processes() == [], within=60, what="server, stubs and what watches them are gone")
        assert [path for path in left if path.exists()] == []
        assert list(run.temporary.iterdir()) == []
        assert run.said().count("is gone") == 1


async def collect(run: Run, first: asyncio.Event) -> list[dict[str, Any]]:
    """All events of a long stream; `first` is set with its first token."""
    events = []
    async for event in stream(run, text_input="Once upon a time", max_tokens=LONG, ignore_eos=True):
        first.set()
        events.append(event)
    return events
