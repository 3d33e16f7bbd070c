"""Options -> a running engine."""

from __future__ import annotations

import contextlib
import locale
import os
from typing import Final

ENVIRONMENT: Final = {
    # A fork of Triton's stub would share its threads' locks and its shared memory.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_COLOR": "0",
}
"""What vLLM reads when it is imported; what the user sets goes first."""

for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
# Triton's stub starts Python without a locale, and then torch cannot read its own files, which are not all ASCII.
with contextlib.suppress(locale.Error):
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8")

from llmserving.engine_metrics import EngineMetrics  # noqa: E402 -- after the variables
from llmserving.host_memory import host_memory  # noqa: E402
from llmserving.metrics import Metrics  # noqa: E402
from llmserving.tokenizer import TextTokenizer  # noqa: E402
from llmvllm.core import INVALID, Core, EngineDeadError  # noqa: E402
from llmvllm.cpu import on_cpu, processor_flags  # noqa: E402
from llmvllm.engine import VllmEngine  # noqa: E402
from llmvllm.options import EngineOptions  # noqa: E402
from llmvllm.prompts import Prompts  # noqa: E402
from llmvllm.statistics import Statistics  # noqa: E402


def start_engine(options: EngineOptions, metrics: EngineMetrics, series: Metrics) -> VllmEngine:
    """Loads the weights and starts vLLM's processes. Whatever keeps vLLM from starting is raised."""
    statistics = Statistics(metrics, series)
    core = Core(options if not Core.on_cpu() else on_cpu(options, processor_flags(), host_memory()), statistics)
    tokenizer = TextTokenizer.load(options.model_path, options.chat_template)
    prompts = Prompts(tokenizer, core.max_length)
    return VllmEngine(core, prompts, statistics, lost=(EngineDeadError,), invalid=INVALID)
