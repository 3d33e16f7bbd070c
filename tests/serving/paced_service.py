"""A service whose engine is paced, on a real tritonserver: rendered, written and controlled as the operator does it."""

from __future__ import annotations

import shutil
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

import llmservice
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.local.tritonserver import TritonServer
from llmservice.repository.features import TritonFeatures
from llmservice.repository.layout import Paths
from llmservice.repository.render import Repository, Role, render
from llmservice.repository.write import write_repository
from llmserving.parameters import MeetingPlace
from llmserving.server_process import held_slots
from llmserving.slots import Slots

NAME: Final = "chat"
CHECKOUT: Final = Path(llmservice.__file__).parent.parent.parent


@dataclass(frozen=True)
class Pace:
    """How the engine computes: a step of b sequences takes `step_seconds + sequence_seconds * b`.

    In a pod it takes `sharing_factor` times as long while another instance is there; on a server of a test's own an
    instance beyond `most_instances` finds no memory.
    """

    step_seconds: float = 0.008
    sequence_seconds: float = 0.0005
    max_sequences: int = 16
    sharing_factor: float = 1.0
    most_instances: int = 64

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

    def config(self, role: Role, **knobs: Any) -> Any:
        """The rendered `ModelConfig` with `knobs` instead of those it started with."""
        return render_paced(self.pace, self.batching, self.run_directory, **knobs).config(role)

    @property
    def place(self) -> MeetingPlace:
        """Where gate and engine meet."""
        return MeetingPlace(self.run_directory, NAME)

    def held_slots(self) -> int:
        """Slots held in all engine instances."""
        return held_slots(self.place)

    def total_slots(self) -> int:
        """Slots of all engine instances."""
        return sum(slots.count for slots in self._slots())

    def free_slots(self) -> int:
        """Free slots of all engine instances."""
        return sum(slots.free() for slots in self._slots())

    def _slots(self) -> list[Slots]:
        return [Slots.open(self.place.slots(instance)) for instance in self.place.instances()]

    def processes(self, model: str) -> set[int]:
        """Process ids of the model's instances that the server runs now."""
        found = set()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and (name := _stub_of(folder, self.server.pid)) and name.startswith(f"{model}_"):
                found.add(int(folder.name))
        return found

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a series over all processes, 0 when there is none."""
        with urllib.request.urlopen(self.server.metrics_url, timeout=10) as page:
            families = text_string_to_metric_families(page.read().decode())
            return sum(
                sample.value
                for family in families
                for sample in family.samples
                if sample.name == name and labels.items() <= sample.labels.items()
            )


def _stub_of(folder: Path, server: int) -> str:
    """The name of the model instance that a process serves, empty when it is no stub of `server`."""
    try:
        command = (folder / "cmdline").read_bytes().split(b"\0")
        parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return command[8].decode() if command[0].endswith(b"triton_python_backend_stub") and parent == server else ""


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
                        "most_instances": str(pace.most_instances),
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


def with_a_gate(code: Path) -> None:
    """The code of gate and engine."""
    (code / "gate").symlink_to(CHECKOUT / "model_repository" / "gate")
    (code / "torch").symlink_to(Path(__file__).parent / "paced")


def without_a_gate(code: Path) -> None:
    """The code of an engine in the place of its gate; the engine's own model is there, and not loaded."""
    (code / "gate").mkdir()
    (code / "gate" / "model.py").symlink_to(Path(__file__).parent / "paced_alone" / "model.py")
    (code / "gate" / "paced_engine.py").symlink_to(Path(__file__).parent / "paced" / "paced_engine.py")
    shutil.copytree(CHECKOUT / "model_repository" / "gate" / "llmgate", code / "gate" / "llmgate")
    (code / "torch").symlink_to(Path(__file__).parent / "paced")


@contextmanager
def paced_service(
    pace: Pace = Pace(),
    batching: Mapping[str, Any] | None = None,
    arguments: tuple[str, ...] = (),
    lay_out: Callable[[Path], None] = with_a_gate,
    **knobs: Any,
) -> Iterator[PacedService]:
    """Starts the service and stops it. Its files live in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="paced-"))
    run_directory = Path(tempfile.mkdtemp(prefix="paced-", dir="/dev/shm"))
    batching = batching or {}
    try:
        code = folder / "code"
        code.mkdir()
        (code / "llmserving").symlink_to(CHECKOUT / "model_repository" / "llmserving")
        lay_out(code)
        repository = render_paced(pace, batching, run_directory, **knobs)
        write_repository(repository, folder / "repository", code)
        names = [model.name for model in repository.models]
        if lay_out is without_a_gate:
            names.remove(f"{NAME}-engine")
        log = folder / "tritonserver.log"
        with TritonServer(folder / "repository", load_models=names, log=log, arguments=arguments) as server:
            yield PacedService(server, pace, batching, run_directory)
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(run_directory)
