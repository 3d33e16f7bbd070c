"""The paced engine under the names that the torch engine's model imports.

In a pod this file is both `llmtorch/engine.py` and `llmtorch/options.py` of the folder with the engine's packages: so
the model, the gate, the slots and the counters are the shipped ones, and only the computing is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from paced_engine import PacedEngine

from llmserving.parameters import Parameters


@dataclass(frozen=True)
class EngineOptions:
    """A step of b sequences takes `step_seconds + sequence_seconds * b`."""

    max_sequences: int
    step_seconds: float
    sequence_seconds: float

    @classmethod
    def from_parameters(cls, parameters: Parameters, device: str = "") -> EngineOptions:
        return cls(
            parameters.integer("max_sequences", minimum=1),
            parameters.number("step_seconds"),
            parameters.number("sequence_seconds"),
        )


class TorchEngine(PacedEngine):  # type: ignore[misc]  # found in the pod, beside this file
    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options.max_sequences, options.step_seconds, options.sequence_seconds)
