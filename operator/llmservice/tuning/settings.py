"""What does not change from window to window: what a service promises, how far knobs may move, what changes cost."""

from __future__ import annotations

from dataclasses import dataclass

from llmservice.api.batching import BatchingMode
from llmservice.api.knobs import SLOT_LOOKAHEAD
from llmservice.api.operations import TuningMode
from llmservice.tuning.metric import Metric as Metric


@dataclass(frozen=True)
class Objective:
    """`quantile` (0.5, 0.9 or 0.99) of `metric` is at most `seconds`."""

    metric: Metric
    quantile: float
    seconds: float

    @property
    def words(self) -> str:
        """As people read it: `timeToFirstToken p99 <= 500 ms`."""
        return f"{self.metric} p{round(100 * self.quantile)} <= {1000 * self.seconds:g} ms"


@dataclass(frozen=True)
class Bounds:
    """How far each knob may move, ends included. Delays in seconds."""

    min_delay: float = 0.0
    max_delay: float = 0.05
    min_instances: int = 1
    max_instances: int = 1
    min_replicas: int = 1
    max_replicas: int = 1


@dataclass(frozen=True)
class Limits:
    """What one replica holds, from the capacity plan."""

    max_sequences: int
    """Largest batch of one engine instance."""
    instances_in_memory: int = 1
    """Engine instances that fit on the replica's accelerator together."""
    kv_tokens: int = 0
    """Tokens the cache of one instance holds; 0: not known."""
    accelerators_per_replica: int = 1
    slot_lookahead: int = SLOT_LOOKAHEAD

    @property
    def max_slots(self) -> int:
        """Most slots of one engine instance."""
        return self.max_sequences + self.slot_lookahead


@dataclass(frozen=True)
class Costs:
    """What changes cost before anything was learnt, in seconds."""

    cold_start: float = 180.0
    """From asking for a replica until it serves."""
    instance_start: float = 10.0


@dataclass(frozen=True)
class Settings:
    """The frame of one service's tuning."""

    mode: TuningMode
    batching: BatchingMode
    objectives: tuple[Objective, ...]
    bounds: Bounds
    limits: Limits
    costs: Costs = Costs()
    delay_binds: bool = True
    """False where the gate's delay means nothing, as with stock engines and where nothing is batched."""
    canary: bool = True
    """Whether one replica of three or more tries a change of a knob first."""
    generation: int = 0
    """Of the spec: another one ends what one replica tries."""
    model_key: str = ""
    """Changes with whatever changes service times: model version, image, accelerator. Another key forgets them."""

    @property
    def continuous(self) -> bool:
        """Whether requests join and leave at every step, so that the delay hardly matters."""
        return self.batching is BatchingMode.CONTINUOUS
