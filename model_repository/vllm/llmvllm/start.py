"""Options -> a running engine. Importing this imports vLLM, so `environment.prepare` comes before."""

from __future__ import annotations

from llmserving.engine_metrics import EngineMetrics
from llmserving.host_memory import host_memory
from llmserving.metrics import Metrics
from llmserving.tokenizer import TextTokenizer
from llmvllm.core import INVALID, Core, EngineDeadError
from llmvllm.cpu import on_cpu, processor_flags
from llmvllm.engine import VllmEngine
from llmvllm.options import EngineOptions
from llmvllm.prompts import Prompts
from llmvllm.statistics import Statistics


def start_engine(options: EngineOptions, metrics: EngineMetrics, series: Metrics) -> VllmEngine:
    """Loads the weights and starts vLLM's processes. Whatever keeps vLLM from starting is raised."""
    statistics = Statistics(metrics, series)
    core = Core(for_this_host(options), statistics)
    tokenizer = TextTokenizer.load(options.model_path, options.chat_template)
    prompts = Prompts(tokenizer, core.max_length)
    return VllmEngine(
        core, prompts, statistics, lost=(EngineDeadError,), invalid=INVALID, adapters=tuple(options.adapters)
    )


def for_this_host(options: EngineOptions) -> EngineOptions:
    """The options with what a CPU needs, where this vLLM is one for processors."""
    return on_cpu(options, processor_flags(), host_memory()) if Core.on_cpu() else options
