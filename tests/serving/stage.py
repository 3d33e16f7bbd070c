"""A service's gates and engines over real sockets and slots in one process, with an engine that needs no time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llmgate.gate import Gate
from llmgate.gate_metrics import GateMetrics
from llmserving.engine_metrics import EngineMetrics
from llmserving.engine_server import EngineServer
from llmserving.metrics import MemoryMetrics
from llmserving.parameters import MeetingPlace, Mode
from tests.serving.paced.paced_engine import PacedEngine


@dataclass
class Stage:
    """One service's gates and engines, and what they complained of."""

    place: MeetingPlace
    metrics: MemoryMetrics = field(default_factory=MemoryMetrics)
    engine_metrics: MemoryMetrics = field(default_factory=MemoryMetrics)
    failures: list[BaseException] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)
    engines: list[PacedEngine] = field(default_factory=list)
    servers: list[EngineServer] = field(default_factory=list)
    _stops: list[Callable[[], object]] = field(default_factory=list)

    def engine(self, slots: int = 4, max_sequences: int = 4) -> EngineServer:
        """One more engine instance. Its steps wait for `go`."""
        engine = PacedEngine(max_sequences, sleep=lambda _: self._pace())
        server = EngineServer(
            engine,
            self.place,
            slots,
            EngineMetrics(self.engine_metrics),
            failed=self.failures.append,
            gate_died=self.complaints.append,
        )
        server.start()
        self.servers.append(server)
        self.engines.append(engine)
        self._stops.append(lambda: server.stop(5))
        return server

    @property
    def server(self) -> EngineServer:
        """The first engine instance."""
        return self.servers[0]

    def gate(self, mode: Mode = Mode.CONTINUOUS, **options: Any) -> Gate:
        """One more gate."""
        options = {"engine_wait": 5, "max_sequences": 4} | options
        gate = Gate(self.place, mode, GateMetrics(self.metrics), self.complaints.append, **options)
        gate.start()
        self._stops.append(gate.close)
        return gate

    def close(self) -> None:
        """Stops all."""
        self.go.set()
        for stop in reversed(self._stops):
            stop()

    def _pace(self) -> None:
        assert self.go.wait(60)
        time.sleep(0.0001)


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.001)
