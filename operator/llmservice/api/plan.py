"""The capacity plan: what fits on one accelerator, and what a change would buy."""

from __future__ import annotations

from dataclasses import dataclass

from llmservice.api.findings import Finding


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of the fullest accelerator by use; together they are its memory. `outside` is what the engine leaves."""

    weights: int
    context: int
    communication: int
    activations: int
    graphs: int
    reserve: int
    kv_cache: int
    outside: int
    adapters: int = 0
    draft: int = 0


@dataclass(frozen=True)
class LengthFit:
    """How many sequences of `length` tokens the cache holds at once."""

    length: int
    sequences: int


@dataclass(frozen=True)
class Gain:
    """What one change would buy: sequences at the planned length before and after it.

    `field_path` and `value` say what to write, `words` what it is.
    """

    words: str
    field_path: str
    value: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.words}: {self.before} -> {self.after} sequences"


@dataclass(frozen=True)
class CapacityPlan:
    """What one replica holds. Bytes are bytes; `fits` is None where the model is not known well enough to say.

    `weights_bytes` and `usable_bytes` are of the whole replica, `kv_bytes_per_token` of one token over all its
    accelerators, `memory` of the fullest one. `max_length` is 0 where only the model's files say it. `max_sequences`
    is what the engine is told, `fitting_sequences` what the cache holds at `planned_length`. `instances` engine
    instances would fit beside each other, each with a sequence of the maximum length. Cache and sequences are those of
    one instance, of as many as memory is planned for. On the fullest accelerator `engine_bytes` are one instance
    without its cache, `sequence_bytes` one sequence of the maximum length, `budget_bytes` what all may take.
    `reload_fits` tells whether the weights fit a second time beside a serving engine, `reload_percent` the highest
    memoryPercent at which they would.
    `kv_blocks` of 16 tokens are what the engine allocates. `nodes` are those of one replica. `problems` make it
    impossible, whatever the memory.
    """

    pool: str
    accelerator: str
    accelerators_per_replica: int
    max_sequences: int
    max_length: int
    fits: bool | None = None
    weights_bytes: int = 0
    kv_bytes_per_token: int = 0
    kv_tokens: int = 0
    usable_bytes: int = 0
    reason: str = ""
    remedies: tuple[str, ...] = ()
    model: str = ""
    dtype: str = ""
    quantization: str = ""
    kv_dtype: str = ""
    memory: MemoryUse | None = None
    planned_length: int = 0
    fitting_sequences: int = 0
    sequences_by_length: tuple[LengthFit, ...] = ()
    kv_blocks: int = 0
    instances: int = 0
    engine_bytes: int = 0
    sequence_bytes: int = 0
    budget_bytes: int = 0
    reload_fits: bool | None = None
    reload_percent: int = 0
    gains: tuple[Gain, ...] = ()
    smallest_pool: str = ""
    problems: tuple[Finding, ...] = ()
    nodes: int = 1

    @property
    def verdict(self) -> str:
        """Why it fits or does not, and what would change that."""
        return " ".join([self.reason, *self.remedies]).strip()

    def instances_with(self, sequences: int) -> int:
        """Engine instances that fit beside each other, each with so many sequences at their longest; 0: not known."""
        if not self.engine_bytes:
            return 0
        return self.budget_bytes // (self.engine_bytes + sequences * self.sequence_bytes)

    @property
    def accelerators_per_pod(self) -> int:
        """Accelerators of each of a replica's pods, one a node."""
        return self.accelerators_per_replica // self.nodes
