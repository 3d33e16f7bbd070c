"""What the driver is told at start, and vLLM's engine arguments that follow from it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from llmserving.parameters import Mode, Parameters

AGREED: Final = frozenset(
    {
        "run_directory",
        "service",
        "mode",
        "max_sequences",
        "slots",
        "max_batch_tokens",
        "max_length",
        "dtype",
        "kv_dtype",
        "memory_percent",
        "model_path",
        "chat_template",
        "served_names",
        "tensor_parallel",
        "pipeline_parallel",
        "nodes",
        "device",
        "adapters",
    }
)
"""Keys that the renderer writes."""
SHARED: Final = frozenset({"warm_up"})
"""Keys of `spec.engine.parameters` that every engine knows; all others are vLLM's engine arguments."""


class OptionError(ValueError):
    """An option that the engine cannot start with; the message names the option and what to write instead."""


@dataclass(frozen=True)
class EngineOptions:
    """Options of one engine instance.

    `max_length` and `max_batch_tokens` None are what the model and vLLM say. `memory_percent` bounds weights plus KV
    cache, in percent of the memory of the device. `nodes` share the engine (`nodes.py`). `adapters` are folders of LoRA
    adapters by name. `arguments` are vLLM's own, as they were written.
    """

    model_path: Path
    mode: Mode = Mode.CONTINUOUS
    max_sequences: int = 16
    max_batch_tokens: int | None = None
    max_length: int | None = None
    dtype: str = "auto"
    kv_dtype: str = "Auto"
    memory_percent: int = 90
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    nodes: int = 1
    device: str = "auto"
    chat_template: str | None = None
    adapters: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def sequences(self) -> int:
        """Sequences that run at once; mode `None` runs them one at a time."""
        return 1 if self.mode is Mode.NONE else self.max_sequences

    @classmethod
    def from_parameters(cls, parameters: Parameters, device: str = "auto") -> EngineOptions:
        """The options in a model's `parameters`. Raises `ParameterError`."""

        def count(key: str) -> int | None:
            return parameters.integer(key, minimum=1) if parameters.text(key, "") else None

        return cls(
            model_path=Path(parameters.text("model_path")),
            mode=parameters.mode(),
            max_sequences=parameters.integer("max_sequences", 16, minimum=1),
            max_batch_tokens=count("max_batch_tokens"),
            max_length=count("max_length"),
            dtype=parameters.text("dtype", "auto"),
            kv_dtype=parameters.text("kv_dtype", "Auto"),
            memory_percent=parameters.integer("memory_percent", 90, minimum=1),
            tensor_parallel=parameters.integer("tensor_parallel", 1, minimum=1),
            pipeline_parallel=parameters.integer("pipeline_parallel", 1, minimum=1),
            nodes=parameters.integer("nodes", 1, minimum=1),
            device=parameters.text("device", device),
            chat_template=parameters.text("chat_template", "") or None,
            adapters=json.loads(parameters.text("adapters", "") or "{}"),
            arguments={key: parameters.text(key, "") for key in parameters.keys() - AGREED - SHARED},
        )

    def engine_arguments(self, known: Mapping[str, object]) -> dict[str, Any]:
        """Arguments of vLLM's `AsyncEngineArgs`, whose fields with their types are `known`. Raises `OptionError`."""
        ours: dict[str, Any] = {
            "model": str(self.model_path),
            "dtype": self.dtype,
            "kv_cache_dtype": "auto" if self.kv_dtype == "Auto" else self.kv_dtype,
            "max_model_len": self.max_length,
            "max_num_seqs": self.sequences,
            "max_num_batched_tokens": self._batch_tokens(),
            "gpu_memory_utilization": self.memory_percent / 100,
            "tensor_parallel_size": self.tensor_parallel,
            "pipeline_parallel_size": self.pipeline_parallel,
            # Always: with equal levels it is first come, first served, and a change of levels needs no new engine.
            "scheduling_policy": "priority",
            "disable_log_stats": True,
        }
        asked = {key: _value(key, text, known) for key, text in self.arguments.items()}
        # Exact step times, where this vLLM can tell them.
        told = {"enable_logging_iteration_details": True} if "enable_logging_iteration_details" in known else {}
        return {key: value for key, value in {**told, **asked, **ours}.items() if value is not None}

    def _batch_tokens(self) -> int | None:
        """At least one for each sequence, or vLLM refuses."""
        return None if self.max_batch_tokens is None else max(self.max_batch_tokens, self.sequences)


def _value(key: str, text: str, known: Mapping[str, object]) -> Any:
    """The value of an argument: JSON where the text is JSON, as in a `model.json`, and else the text itself."""
    if key not in known:
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ": remove it"
        raise OptionError(f"spec.engine.parameters[{key}] is no engine argument of this vLLM{hint}")
    if known[key] in (str, "str", "str | None"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
