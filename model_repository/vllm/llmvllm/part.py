"""The part of vLLM's engine on one of the other nodes: its processes, without a scheduler and without requests."""

from __future__ import annotations

import os
import signal
from types import FrameType

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.v1.executor.multiproc_executor import MultiprocExecutor

from llmvllm.core import Core
from llmvllm.options import EngineOptions
from llmvllm.start import for_this_host


def work(options: EngineOptions) -> None:
    """Holds this node's part of the engine until one of its processes ends; as vLLM's own `serve --headless` does.

    Raises what keeps them from starting, and SystemExit when asked to end.
    """
    signal.signal(signal.SIGTERM, _end)
    arguments = AsyncEngineArgs(**Core.arguments(for_this_host(options), os.environ))
    executor = MultiprocExecutor(arguments.create_engine_config(headless=True), monitor_workers=False)
    try:
        executor.start_worker_monitor(inline=True)
    finally:
        executor.shutdown()


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
