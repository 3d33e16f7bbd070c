"""What the engine is told at start, from the parameters of its `config.pbtxt`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llmserving.parameters import Mode, Parameters
from llmtorch.scheduler import Limits

DEFAULT_MAX_SEQUENCES = 16
DEFAULT_MAX_BATCH_TOKENS = 2048
BLOCK_SIZE = 16
DEFAULT_AGING_SECONDS = 10.0
KERNELS = ("auto", "native", "torch")
DEFAULT_LENGTH_BUCKETS = (32, 64, 128, 256, 512, 1024)


class OptionError(ValueError):
    """An option that the engine cannot start with; the message names the option and what to write instead."""


@dataclass(frozen=True)
class EngineOptions:
    """Options of one engine instance.

    `max_length` None is what the model says. `memory_percent` bounds weights plus KV cache, in percent of the memory of
    the device. `cache_blocks` overrides the size that follows from it. `threads` None is one per core.

    A step computes at most `max_prefill_sequences` prompts (None: any number), and beside answers at most
    `max_prefill_tokens` of their tokens (None: as many as make it take no longer than two steps without). Waiting
    `aging_seconds` weighs as much as one level of priority. Prompts of like length within one of the `length_buckets`,
    upper ends in ascending order, attend together. `kernels` says who computes on a CPU: `native` the compiled ones,
    `torch` torch's operators, `auto` the compiled ones where there are any. With `cuda_graphs` a GPU replays decoding
    steps that were captured.
    """

    model_path: Path
    mode: Mode = Mode.CONTINUOUS
    max_sequences: int = DEFAULT_MAX_SEQUENCES
    max_batch_tokens: int = DEFAULT_MAX_BATCH_TOKENS
    max_length: int | None = None
    dtype: str = "auto"
    kv_dtype: str = "Auto"
    memory_percent: int = 90
    block_size: int = BLOCK_SIZE
    cache_blocks: int | None = None
    device: str = "auto"
    threads: int | None = None
    chat_template: str | None = None
    prefix_caching: bool = True
    max_prefill_sequences: int | None = None
    max_prefill_tokens: int | None = None
    aging_seconds: float = DEFAULT_AGING_SECONDS
    length_buckets: tuple[int, ...] = DEFAULT_LENGTH_BUCKETS
    kernels: str = "auto"
    cuda_graphs: bool = True

    @property
    def sequences(self) -> int:
        """Sequences that run at once; mode `None` runs them one at a time."""
        return 1 if self.mode is Mode.NONE else self.max_sequences

    @property
    def token_budget(self) -> int:
        """Tokens of one step. A step takes at least one token of every running sequence."""
        return max(self.max_batch_tokens, self.sequences)

    def limits(self) -> Limits:
        """What the scheduler puts into one step."""
        return Limits(self.sequences, self.token_budget, self.max_prefill_sequences, self.max_prefill_tokens)

    @classmethod
    def from_parameters(cls, parameters: Parameters, device: str = "auto") -> EngineOptions:
        """The options in a model's `parameters`. Raises `ParameterError`; keys of others are left alone."""

        def count(key: str) -> int | None:
            return parameters.integer(key, minimum=1) if parameters.text(key, "") else None

        return cls(
            model_path=Path(parameters.text("model_path")),
            mode=parameters.mode(),
            max_sequences=parameters.integer("max_sequences", DEFAULT_MAX_SEQUENCES, minimum=1),
            max_batch_tokens=parameters.integer("max_batch_tokens", DEFAULT_MAX_BATCH_TOKENS, minimum=1),
            max_length=count("max_length"),
            dtype=parameters.text("dtype", "auto"),
            kv_dtype=parameters.text("kv_dtype", "Auto"),
            memory_percent=parameters.integer("memory_percent", 90, minimum=1),
            cache_blocks=count("cache_blocks"),
            device=parameters.text("device", device),
            threads=count("threads"),
            chat_template=parameters.text("chat_template", "") or None,
            prefix_caching=parameters.flag("prefix_caching", default=True),
            max_prefill_sequences=count("max_prefill_sequences"),
            max_prefill_tokens=count("max_prefill_tokens"),
            aging_seconds=parameters.number("aging_seconds", DEFAULT_AGING_SECONDS, minimum=0.0),
            length_buckets=parameters.integers("length_buckets", DEFAULT_LENGTH_BUCKETS),
            kernels=parameters.text("kernels", "auto"),
            cuda_graphs=parameters.flag("cuda_graphs", default=True),
        )
