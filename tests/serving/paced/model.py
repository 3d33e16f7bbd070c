"""Triton's entry into the paced engine: what every engine model does, around an engine that needs no weights."""

from __future__ import annotations

from paced_engine import PacedEngine

from llmserving.engine import Engine
from llmserving.engine_model import EngineModel, Given
from llmserving.parameters import MeetingPlace


class TritonPythonModel(EngineModel):
    def open_engine(self, given: Given) -> Engine:
        there = len(MeetingPlace.of(given.parameters).instances())
        if there >= given.parameters.integer("most_instances", 64):
            raise MemoryError(f"{there} instances took all of the memory")
        engine: Engine = PacedEngine(
            given.parameters.integer("max_sequences", minimum=1),
            given.parameters.number("step_seconds", 0.008),
            given.parameters.number("sequence_seconds", 0.0005),
        )
        return engine
