"""The paced engine under the names that the torch engine's model imports.

In a pod this file is both `llmtorch/engine.py` and `llmtorch/options.py` of the folder with the engine's packages: so
the model, the gate, the slots and the counters are the shipped ones, and only the computing is not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from paced_engine import PacedEngine

from llmserving.parameters import MeetingPlace, Parameters


@dataclass(frozen=True)
class EngineOptions:
    """A step of b sequences takes `step_seconds + sequence_seconds * b`, `sharing_factor` times that beside another."""

    max_sequences: int
    step_seconds: float
    sequence_seconds: float
    sharing_factor: float
    place: MeetingPlace

    @classmethod
    def from_parameters(cls, parameters: Parameters, device: str = "") -> EngineOptions:
        return cls(
            parameters.integer("max_sequences", minimum=1),
            parameters.number("step_seconds"),
            parameters.number("sequence_seconds"),
            parameters.number("sharing_factor", 1.0),
            MeetingPlace.of(parameters),
        )

    def compute(self, seconds: float) -> None:
        """Takes the time of a step."""
        shared = len(self.place.instances()) > 1
        time.sleep(seconds * (self.sharing_factor if shared else 1.0))


class TorchEngine(PacedEngine):  # type: ignore[misc]  # found in the pod, beside this file
    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options.max_sequences, options.step_seconds, options.sequence_seconds, options.compute)
