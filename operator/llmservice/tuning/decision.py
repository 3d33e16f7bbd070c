"""What the tuner says: knobs, actions in order, and why, in words with the figures behind them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmservice.api.knobs import Knobs
from llmservice.changes.change_class import ChangeClass
from llmservice.tuning.settings import Metric, Objective


class Knob(StrEnum):
    """The knobs, by the names of `status.knobs`."""

    DELAY = "maxQueueDelay"
    INSTANCES = "engineInstances"
    SLOTS = "slots"
    REPLICAS = "replicas"

    @property
    def change_class(self) -> ChangeClass:
        """What moving it costs."""
        return {Knob.DELAY: ChangeClass.GATE_RELOAD, Knob.REPLICAS: ChangeClass.NONE}.get(self, ChangeClass.IN_PLACE)


class Scope(StrEnum):
    """Which replicas take an action."""

    ALL = "All"
    CANARY = "Canary"
    """One replica, beside the others with the old setting."""
    PROMOTED = "Promoted"
    """Those beside the canary: what it proved becomes everybody's."""


class Outcome(StrEnum):
    """What a decision came to."""

    ACT = "Act"
    HOLD = "Hold"
    """Nothing to gain, or a guard holds it back."""
    DISTRUST = "Distrust"
    """The signals or the model cannot be trusted: knobs stay."""
    OBSERVE = "Observe"
    OFF = "Off"


class Resource(StrEnum):
    """What would have to grow for the service to take more."""

    NONE = "None"
    COMPUTE = "Compute"
    KV_CACHE = "KVCache"
    SLOTS = "Slots"
    REPLICAS = "MaxReplicas"
    ACCELERATORS = "FreeAccelerators"
    OBJECTIVE = "Objective"
    """Not even one request alone is fast enough."""


@dataclass(frozen=True)
class Action:
    """One knob to move. Delays are seconds, the rest counts."""

    knob: Knob
    old: float
    new: float
    reason: str
    scope: Scope = Scope.ALL

    @property
    def change_class(self) -> ChangeClass:
        """What it costs."""
        return self.knob.change_class


@dataclass(frozen=True)
class Prediction:
    """What the model expects of `metric` at `quantile` over the next window with the knobs as decided, in seconds.

    `upper` is exceeded by the measured value in 5 % of windows, learnt from how far earlier predictions were off.
    """

    metric: Metric
    quantile: float
    seconds: float
    upper: float


@dataclass(frozen=True)
class Infeasible:
    """An objective no setting of the knobs reaches. It is reported, and nothing is scaled for it."""

    objective: Objective
    reason: str


@dataclass(frozen=True)
class Decision:
    """One window's decision.

    `knobs` are to be in force after `actions`; `proposed` are the best the model knows, reached over several windows
    or, in `Observe`, never. `inputs` are the figures the reason rests on. `next_action_at` has the unit of `now`.
    """

    outcome: Outcome
    knobs: Knobs
    proposed: Knobs
    reason: str
    actions: tuple[Action, ...] = ()
    inputs: tuple[tuple[str, float], ...] = ()
    headroom: float | None = None
    """Share of the capacity under the objectives that is unused; negative: overloaded; None: not known."""
    limiting: Resource = Resource.NONE
    infeasible: tuple[Infeasible, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    next_action_at: float | None = None
    trusted: bool = True
    distrust: str = ""
    """Why not trusted, in words."""
    claims: bool = False
    """Whether a change waits for nothing but its turn among the services of this operator."""
    degraded: bool = False
    """Held for so long that somebody should look."""


def counted(count: int, noun: str) -> str:
    """Such as `1 replica` and `2 replicas`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def sentence(text: str) -> str:
    """`text` as a sentence."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
