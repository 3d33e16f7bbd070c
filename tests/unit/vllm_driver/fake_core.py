"""vLLM as the driver sees it, scripted: tests say what each step gives, and see what vLLM was told."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from llmserving.chat import ChatTemplate
from llmserving.engine import Output
from llmserving.engine_metrics import EngineMetrics
from llmserving.metrics import MemoryMetrics
from llmserving.tokenizer import TextTokenizer
from llmvllm.engine import VllmEngine
from llmvllm.prompts import Prompts
from llmvllm.statistics import Statistics
from tests.unit.torch_engine.tiny import byte_tokenizer

MAX_LENGTH = 32
SECONDS = 10.0


class DeadError(Exception):
    """What vLLM raises when its processes are gone."""


class BadRequestError(ValueError):
    """What vLLM raises for a request at fault."""


def completion(
    text: str = "", tokens: Sequence[int] = (), reason: str | None = None, index: int = 0, logprobs: Any = None
) -> SimpleNamespace:
    """A `CompletionOutput`."""
    return SimpleNamespace(index=index, text=text, token_ids=list(tokens), finish_reason=reason, logprobs=logprobs)


@dataclass
class FakeCore:
    """`steps` feeds the requests: key → completions, all in one turn of the loop as vLLM's output handler does."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    started: list[tuple[str, list[int], dict[str, Any], int]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    closed: bool = False
    answers_aborts: bool = True

    def __post_init__(self) -> None:
        self._queues: defaultdict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        self._death: asyncio.Future[None] | None = None

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    async def generate(
        self, request_id: str, tokens: Sequence[int], sampling: dict[str, Any], priority: int
    ) -> AsyncIterator[Sequence[Any]]:
        self.started.append((request_id, list(tokens), sampling, priority))
        queue = self._queues[request_id]
        try:
            while True:
                item = await queue.get()
                if isinstance(item, BaseException):
                    raise item
                yield [item]
                if item.finish_reason is not None:
                    return
        except asyncio.CancelledError:
            self.aborted.append(request_id)
            raise

    async def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)
        if self.answers_aborts:
            self._queues[request_id].put_nowait(completion("held", reason="abort"))

    async def watch(self) -> None:
        self._death = self.loop.create_future()
        await self._death

    def close(self) -> None:
        self.closed = True

    def step(self, **given: Any) -> None:
        """One step of vLLM; keys are `r1`, `r2`, … and values completions or errors."""

        async def feed() -> None:
            for name, item in given.items():
                self._queues[name.removeprefix("r")].put_nowait(item)

        self.call(feed())

    def die(self) -> None:
        """The processes are gone, and nobody asked for anything."""

        async def end() -> None:
            assert self._death is not None
            self._death.set_exception(DeadError("engine core died"))

        self.call(end())

    def settle(self) -> None:
        """Returns when what was asked of the loop so far has been done, and what follows from it."""

        async def turns() -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        self.call(turns())


@dataclass
class Driven:
    """An engine over the fake, and the thread that would drive it: this one."""

    engine: VllmEngine
    core: FakeCore
    series: MemoryMetrics
    statistics: Statistics
    woken: threading.Event

    def outputs(self) -> list[Output]:
        """What the next step gives, waited for."""
        assert self.woken.wait(SECONDS), "nothing came"
        self.woken.clear()
        return self.engine.step()


@contextmanager
def driven(core: FakeCore | None = None, adapters: Sequence[str] = ()) -> Iterator[Driven]:
    """An engine of byte tokens and at most `MAX_LENGTH` of them."""
    core = core or FakeCore()
    thread = threading.Thread(target=core.loop.run_forever, daemon=True)
    thread.start()
    series = MemoryMetrics()
    statistics = Statistics(EngineMetrics(series), series)
    prompts = Prompts(TextTokenizer(byte_tokenizer(), ChatTemplate(None, {})), MAX_LENGTH)
    engine = VllmEngine(core, prompts, statistics, lost=(DeadError,), invalid=(BadRequestError,), adapters=adapters)
    woken = threading.Event()
    engine.wake_by(woken.set)
    core.settle()
    try:
        yield Driven(engine, core, series, statistics, woken)
    finally:

        async def end_all() -> None:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        core.call(end_all())
        core.settle()
        core.loop.call_soon_threadsafe(core.loop.stop)
        thread.join(SECONDS)
        core.loop.close()
