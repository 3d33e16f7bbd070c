"""A service whose engine is paced, on a real tritonserver: rendered, written and controlled as the operator does it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import llmservice
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.local.tritonserver import TritonServer
from llmservice.repository.features import TritonFeatures
from llmservice.repository.layout import Paths
from llmservice.repository.render import Repository, Role, render
from llmservice.repository.write import write_repository

NAME: Final = "chat"
CHECKOUT: Final = Path(llmservice.__file__).parent.parent.parent


@dataclass(frozen=True)
class Pace:
    """How the engine computes: a step of b sequences takes `step_seconds + sequence_seconds * b`."""

    step_seconds: float = 0.008
    sequence_seconds: float = 0.0005
    max_sequences: int = 16

    @property
    def tokens_per_second(self) -> float:
        """Of a full engine."""
        return self.max_sequences / (self.step_seconds + self.sequence_seconds * self.max_sequences)


@dataclass(frozen=True)
class PacedService:
    """A running service."""

    server: TritonServer
    pace: Pace
    batching: Mapping[str, Any]
    run_directory: Path

    def repository(self, **knobs: Any) -> Repository:
        """The rendered repository with `knobs` instead of those it started with."""
        return render_paced(self.pace, self.batching, self.run_directory, **knobs)

    def load_json(self, role: Role, **knobs: Any) -> str:
        """What the load API gets for a change of knobs."""
        return self.repository(**knobs).load_json(role)


def render_paced(pace: Pace, batching: Mapping[str, Any], run_directory: Path, **knobs: Any) -> Repository:
    """The repository of the paced service."""
    service = LLMService.parse(
        {
            "metadata": {"name": NAME},
            "spec": {
                "model": {"source": {"package": {"name": "paced"}}},
                "engine": {
                    "backend": "torch",
                    "parameters": {
                        "step_seconds": str(pace.step_seconds),
                        "sequence_seconds": str(pace.sequence_seconds),
                    },
                },
                "batching": dict(batching),
            },
        }
    )
    plan = CapacityPlan("cpu", "cpu", 0, max_sequences=pace.max_sequences, max_length=4096)
    defaults = {"slots": pace.max_sequences + 2, "max_queue_delay": timedelta(0)}
    paths = Paths(run_directory=str(run_directory), model_path="/nonexistent")
    return render(service, plan, Knobs(**(defaults | knobs)), TritonFeatures.for_version("2.51.0"), paths)


@contextmanager
def paced_service(
    pace: Pace = Pace(), batching: Mapping[str, Any] | None = None, arguments: tuple[str, ...] = (), **knobs: Any
) -> Iterator[PacedService]:
    """Starts the service and stops it. Its files live in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="paced-"))
    run_directory = Path(tempfile.mkdtemp(prefix="paced-", dir="/dev/shm"))
    batching = batching or {}
    try:
        code = folder / "code"
        code.mkdir()
        (code / "gate").symlink_to(CHECKOUT / "model_repository" / "gate")
        (code / "llmserving").symlink_to(CHECKOUT / "model_repository" / "llmserving")
        (code / "torch").symlink_to(Path(__file__).parent / "paced")
        repository = render_paced(pace, batching, run_directory, **knobs)
        write_repository(repository, folder / "repository", code)
        names = [model.name for model in repository.models]
        log = folder / "tritonserver.log"
        with TritonServer(folder / "repository", load_models=names, log=log, arguments=arguments) as server:
            yield PacedService(server, pace, batching, run_directory)
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(run_directory)
