"""The engine: requests to vLLM, and back what each of its steps gave, all tokens of a step together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from llmserving.engine import EngineStatus, FinishReason, Output, Request
from llmvllm.answers import Answers
from llmvllm.batches import Batches
from llmvllm.prompts import Prompts, RequestError
from llmvllm.sampling import sampling_arguments
from llmvllm.statistics import Statistics

ABORT_SECONDS: Final = 1.0


class EngineLostError(RuntimeError):
    """vLLM's own processes died, and with them every sequence."""


class AsyncEngine(Protocol):
    """vLLM as it is used here: `llmvllm.core.Core`, or a stand-in in tests."""

    loop: asyncio.AbstractEventLoop

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs `work` in the loop and returns what it gives."""

    def generate(
        self, request_id: str, tokens: Sequence[int], sampling: dict[str, Any], priority: int
    ) -> AsyncIterator[Sequence[Any]]:
        """What is new of the request's answers, each time. `sampling` also has `adapter` where one is asked."""

    async def abort(self, request_id: str) -> None:
        """Ends a request; `generate` gives its last outputs."""

    async def watch(self) -> None:
        """Returns never; raises when the engine's own processes died."""

    def close(self) -> None:
        """Ends the engine and its loop."""


@dataclass
class _Work:
    request: Request
    tokens: list[int]
    sampling: dict[str, Any]
    answers: Answers
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None


class VllmEngine:
    """`llmserving.engine.Engine` over vLLM, which computes in processes of its own.

    `add`, `cancel`, `has_work`, `step`, `status` and `close` belong to the thread that drives engines; what vLLM gives
    comes in the thread of its event loop. Both meet in `_ready`, one list for each step of vLLM: whatever it puts out
    in one turn of the loop is of one step. `wake` is called when `has_work` becomes true.
    """

    def __init__(
        self,
        core: AsyncEngine,
        prompts: Prompts,
        statistics: Statistics,
        lost: tuple[type[BaseException], ...],
        invalid: tuple[type[BaseException], ...] = (ValueError,),
        adapters: Collection[str] = (),
    ) -> None:
        self._core = core
        self._prompts = prompts
        self._statistics = statistics
        self._lost = lost
        self._invalid = invalid
        self._adapters = adapters
        self._wake: Callable[[], None] = lambda: None
        self._live: dict[int, _Work] = {}
        self._batches = Batches()
        self._ready: deque[list[Output]] = deque()
        self._fresh: list[Output] = []
        self._failure: BaseException | None = None
        core.loop.call_soon_threadsafe(self._watch)

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Sets what tells the driving thread that there is something to deliver."""
        self._wake = wake

    def add(self, request: Request) -> None:
        """Hands a request to vLLM at once, a batch's members when the batch before them is out.

        One that cannot be served is answered by the next `step`. What a tokenizer or a template raises beyond its own
        errors is raised on; the rest of the batch goes on.
        """
        key: int | None = None
        try:
            work = self._prepare(request)
            key = request.key
            self._live[key] = work
            if request.batch is None:
                self._core.loop.call_soon_threadsafe(self._begin, work)
            if request.deadline is not None:
                self._core.loop.call_soon_threadsafe(self._set_deadline, work, request.deadline)
        except ValueError as error:
            refused = Output(request.key, finish_reason=FinishReason.ERROR, error=str(error), invalid=True)
            self._ready.append([refused])
        finally:
            if request.batch is not None:
                self._batches.arrive(request.batch, request.batch_size, key)
                self._admit_batch()

    def cancel(self, key: int) -> None:
        """Ends a request. Its last output comes when vLLM has been told, so that its place is free for the next."""
        work = self._live.get(key)
        if work is not None:
            self._core.loop.call_soon_threadsafe(self._end_early, work, FinishReason.CANCELLED)

    def has_work(self) -> bool:
        """Whether `step` would give anything: vLLM computes by itself."""
        return bool(self._ready) or self._failure is not None

    def step(self) -> list[Output]:
        """What vLLM gave since the last call. Raises `EngineLostError` when its processes died."""
        outputs: list[Output] = []
        while self._ready:
            outputs += self._ready.popleft()
        if self._failure is not None and not outputs:
            raise EngineLostError(str(self._failure) or type(self._failure).__name__) from self._failure
        ended = [output.key for output in outputs if output.ends_request]
        for key in ended:
            if self._live.pop(key, None) is not None:
                self._batches.end(key)
        if ended:
            self._admit_batch()
        return outputs

    def status(self) -> EngineStatus:
        """As vLLM told after its last step. Steps are counted where they are told, one by one."""
        return self._statistics.status(sum(work.request.sampling.n for work in self._live.values()))

    def close(self) -> None:
        """Ends vLLM's processes."""
        self._core.close()

    def _prepare(self, request: Request) -> _Work:
        if request.key in self._live:
            self.cancel(request.key)
            raise RequestError(f"key {request.key} is taken by a live request: both are ended")
        tokens = self._prompts.encode(request)
        sampling = sampling_arguments(request.sampling, room=self._prompts.max_length - len(tokens))
        adapter = request.sampling.adapter
        if adapter and adapter not in self._adapters:
            known = ", ".join(sorted(self._adapters)) or "none"
            raise RequestError(f"adapter {adapter!r:.80} is not served: leave it out, or send one of: {known}")
        sampling |= {"adapter": adapter} if adapter else {}
        answers = Answers(request.key, request.sampling.n, len(tokens), request.sampling.logprobs)
        return _Work(request, tokens, sampling, answers)

    def _admit_batch(self) -> None:
        for key in self._batches.next():
            self._core.loop.call_soon_threadsafe(self._begin, self._live[key])

    # From here on: in the loop's thread.

    def _watch(self) -> None:
        task = self._core.loop.create_task(self._core.watch())
        task.add_done_callback(self._fail)
        self._watcher = task  # the loop itself keeps no task alive

    def _fail(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self._wake()

    def _begin(self, work: _Work) -> None:
        if work.answers.ended:
            return  # its client left while its batch waited
        work.task = self._core.loop.create_task(self._run(work))
        work.task.add_done_callback(lambda task: self._ended(work, task))

    def _set_deadline(self, work: _Work, deadline: float) -> None:
        """The loop's clock is time.monotonic, as the deadline's."""
        work.timer = self._core.loop.call_at(deadline, self._end_overdue, work)

    async def _run(self, work: _Work) -> None:
        request = work.request
        async for completions in self._core.generate(str(request.key), work.tokens, work.sampling, request.priority):
            self._emit(work.answers.take(completions))

    def _end_early(self, work: _Work, reason: FinishReason) -> None:
        """`generate` tells vLLM when its task is cancelled, and that is over when the task is."""
        work.answers.ending = reason
        if work.task is None:
            self._emit(work.answers.end(reason))
        else:
            work.task.cancel()

    def _end_overdue(self, work: _Work) -> None:
        """Asks vLLM for the text that it still holds back; where it gives no end, the request ends without it."""
        work.answers.ending = FinishReason.DEADLINE
        if work.task is None:
            self._end_early(work, FinishReason.DEADLINE)
            return
        asking = self._core.loop.create_task(self._core.abort(str(work.request.key)))
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        work.timer = self._core.loop.call_later(ABORT_SECONDS, self._end_early, work, FinishReason.DEADLINE)

    def _ended(self, work: _Work, task: asyncio.Task[None]) -> None:
        if work.timer is not None:
            work.timer.cancel()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, self._lost):
            self._fail(task)
        elif error is not None:
            text = str(error) or str(error.__cause__ or type(error).__name__)
            self._emit(work.answers.end(FinishReason.ERROR, text, invalid=isinstance(error, self._invalid)))
        else:
            reason = work.answers.ending or FinishReason.ERROR
            why = "vLLM ended the request without an answer" if reason is FinishReason.ERROR else ""
            self._emit(work.answers.end(reason, why))

    def _emit(self, outputs: list[Output]) -> None:
        """Keeps outputs until the end of this turn of the loop: the tasks of one step are woken in one turn."""
        if not outputs:
            return
        if not self._fresh:
            self._core.loop.call_soon(self._flush)
        self._fresh += outputs

    def _flush(self) -> None:
        self._ready.append(self._fresh)
        self._fresh = []
        self._wake()
