"""One simulated replica: its life from creation to removal, its knobs as they come into force, what it counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmservice.tuning.simulator.accelerate import compiled
from llmservice.tuning.simulator.batch_kernel import BatchState, advance_batches
from llmservice.tuning.simulator.kinds import BatchKind, Kind, TokenKind
from llmservice.tuning.simulator.token_kernel import TokenState, advance_tokens

Floats = NDArray[np.float64]

ARRIVAL, START, FIRST, FINISH, INPUT, OUTPUT = range(6)
"""Columns of a finished request. Where batches run to completion the first token comes with the last."""
NOTHING: Final = np.zeros((0, 6))


@dataclass
class Pace:
    """What an engine computes with now: it may drift, and is slower while its gate reloads."""

    kind: Kind
    speed: float = 1.0


@dataclass
class Setting:
    """The knobs in force on one replica. Delay in seconds."""

    delay: float
    instances: int
    slots: int


@dataclass(eq=False)
class Replica:
    """One replica. Times are seconds of the simulation; `removed` is None while it is paid for."""

    name: str
    created: float
    scheduled: float
    ready: float
    setting: Setting
    state: BatchState | TokenState
    jit: bool
    draining_since: float | None = None
    removed: float | None = None
    waiting: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    """(arrival, prompt tokens, output tokens) of requests that have not begun."""
    arrived: int = 0
    completed: int = 0
    fresh: list[Floats] = field(default_factory=list)
    """Requests that finished since somebody last took them."""

    def is_ready(self, now: float) -> bool:
        """Whether the Service sends requests to it."""
        return self.ready <= now and self.draining_since is None

    @property
    def inside(self) -> int:
        """Requests in the engine."""
        if isinstance(self.state, BatchState):
            return int(self.state.size.sum())
        return int(self.state.running.sum())

    @property
    def empty(self) -> bool:
        """Whether nothing is left to drain."""
        return len(self.waiting) == 0 and self.inside == 0

    def advance(self, clock: float, until: float, arrivals: Floats, pace: Pace) -> Floats:
        """Runs from `clock` to `until` with further `arrivals`. Returns the requests that finished."""
        self.arrived += len(arrivals)
        if len(arrivals):
            self.waiting = np.concatenate((self.waiting, arrivals)) if len(self.waiting) else arrivals
        if self.empty:
            return NOTHING
        if isinstance(self.state, BatchState) and isinstance(pace.kind, BatchKind):
            begun, finished = self._batches(self.state, pace.kind, pace.speed, clock, until)
        elif isinstance(self.state, TokenState) and isinstance(pace.kind, TokenKind):
            begun, finished = self._tokens(self.state, pace.kind, pace.speed, clock, until)
        else:
            raise TypeError(f"a {type(pace.kind).__name__} does not run in a {type(self.state).__name__}")
        self.waiting = self.waiting[begun:]
        self.completed += len(finished)
        if len(finished):
            self.fresh.append(finished)
        return finished

    def _batches(
        self, state: BatchState, kind: BatchKind, speed: float, clock: float, until: float
    ) -> tuple[int, Floats]:
        kernel = compiled(advance_batches) if self.jit else advance_batches
        out = np.empty((len(self.waiting) + self.inside, 3))
        begun, written = kernel(
            clock,
            until,
            np.ascontiguousarray(self.waiting[:, 0]),
            self.setting.delay,
            self.setting.instances,
            kind.overhead,
            kind.per_request,
            kind.jitter,
            speed,
            kind.gain_array(),
            state.payload,
            state.work,
            state.started,
            state.size,
            state.members,
            state.counts,
            state.seconds,
            state.noise,
            state.busy,
            out,
        )
        finished = np.zeros((written, 6))
        finished[:, [ARRIVAL, START, FIRST]] = out[:written]
        finished[:, FINISH] = out[:written, 2]
        return begun, finished

    def _tokens(
        self, state: TokenState, kind: TokenKind, speed: float, clock: float, until: float
    ) -> tuple[int, Floats]:
        kernel = compiled(advance_tokens) if self.jit else advance_tokens
        out = np.empty((len(self.waiting) + self.inside, 6))
        table = kind.arrays()
        begun, written = kernel(
            clock,
            until,
            self.waiting,
            min(self.setting.slots, kind.max_sequences),
            float(kind.max_prompt_tokens),
            float(kind.kv_tokens),
            speed / kind.slowness,
            table.sizes,
            table.contexts,
            table.steps,
            table.prompts,
            table.prompt_seconds,
            state.scalars,
            state.running,
            state.ends,
            state.sequences,
            state.counts,
            state.seconds,
            state.busy,
            out,
        )
        return begun, out[:written]


def new_state(kind: Kind, seed: int) -> BatchState | TokenState:
    """An idle engine. `seed` is of its own jitter."""
    if isinstance(kind, TokenKind):
        return TokenState(kind.max_sequences)
    return BatchState(kind.max_batch, noise=np.array([seed * 2654435761 % 2**63 + 1], np.uint64))
