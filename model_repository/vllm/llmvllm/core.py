"""vLLM's asynchronous engine in an event loop of its own, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.lora.request import LoRARequest
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.metrics.loggers import StatLoggerBase

from llmvllm.nodes import node_arguments
from llmvllm.options import EngineOptions
from llmvllm.statistics import Statistics

T = TypeVar("T")

STOP_SECONDS: Final = 30.0
WATCH_SECONDS: Final = 1.0
INVALID: Final[tuple[type[Exception], ...]] = (
    ValueError,
    getattr(importlib.import_module("vllm.exceptions"), "VLLMClientError", ValueError),
)
"""What vLLM raises for a request that is at fault; the second is of newer versions."""
__all__ = ["INVALID", "Core", "EngineDeadError"]


class Core:
    """Made with the engine loaded; whatever keeps it from starting is raised.

    Except for `call` and `close`, everything runs in the loop's thread.
    """

    def __init__(self, options: EngineOptions, statistics: Statistics) -> None:
        self._adapters = {
            name: LoRARequest(name, number, path) for number, (name, path) in enumerate(options.adapters.items(), 1)
        }
        self._arguments = AsyncEngineArgs(**self.arguments(options, os.environ))
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        try:
            self._llm = self.call(self._open(statistics))
        except BaseException:
            self._stop()
            raise
        self.max_length = int(self._llm.model_config.max_model_len)

    @staticmethod
    def arguments(options: EngineOptions, environment: Mapping[str, str]) -> dict[str, Any]:
        """Arguments of `AsyncEngineArgs` for this node. Raises `OptionError`."""
        known = {field.name: field.type for field in dataclasses.fields(AsyncEngineArgs)}
        return options.engine_arguments(known) | node_arguments(options.nodes, environment)

    @staticmethod
    def on_cpu() -> bool:
        """Whether this vLLM is one for processors."""
        return bool(current_platform.is_cpu())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` in the loop and returns what it gives."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def generate(
        self, request_id: str, tokens: Sequence[int], sampling: dict[str, Any], priority: int
    ) -> AsyncIterator[Sequence[Any]]:
        """What is new of the request's answers, each time. A smaller priority goes first, as everywhere here."""
        adapter = self._adapters.get(sampling.get("adapter", ""))
        told = {key: value for key, value in sampling.items() if key != "adapter"}
        parameters = SamplingParams(**told, output_kind=RequestOutputKind.DELTA)
        # Typed, so that vLLM takes it as it is instead of through a thread that tokenizes.
        prompt = {"type": "token", "prompt_token_ids": list(tokens)}
        asked = self._llm.generate(prompt, parameters, request_id, lora_request=adapter, priority=priority)
        async for output in asked:
            yield output.outputs

    async def abort(self, request_id: str) -> None:
        """Ends a request; `generate` gives its last outputs."""
        await self._llm.abort(request_id)

    async def watch(self) -> None:
        """Returns never; raises `EngineDeadError` when vLLM's own processes died, also while there is no request."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            await self._llm.check_health()

    def close(self) -> None:
        """Ends the engine's processes and the loop."""
        ending = asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        with contextlib.suppress(TimeoutError):  # processes that do not end go with their parent
            ending.result(STOP_SECONDS)
        self._stop()

    def _stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=STOP_SECONDS)

    async def _end(self) -> None:
        self._llm.shutdown()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _open(self, statistics: Statistics) -> AsyncLLM:
        return AsyncLLM.from_engine_args(self._arguments, stat_loggers=[_stat_logger(statistics)])


def _stat_logger(statistics: Statistics) -> Callable[..., StatLoggerBase]:
    """A factory of vLLM's form. vLLM warns that the arguments of `record` change, so only two are looked at."""

    class Recorder(StatLoggerBase):  # type: ignore[misc]
        def __init__(self, *_: object) -> None:
            """The configuration and the engine's index, which nobody needs here."""

        def record(self, scheduler_stats: Any = None, iteration_stats: Any = None, *_: object, **__: object) -> None:
            statistics.record(scheduler_stats, iteration_stats)

        def log_engine_initialized(self) -> None:
            """There is nothing to say: Triton tells when the model is ready."""

    return Recorder
