"""`llmservice build-engine`: the Job that builds a TensorRT-LLM engine, and what to write into the service after it."""

from __future__ import annotations

from pathlib import Path

import typer
import yaml

from llmservice.api.service import LLMService
from llmservice.capacity.accelerators import find_accelerator
from llmservice.capacity.plan import plan as plan_capacity
from llmservice.capacity.pools import with_built_in_pools
from llmservice.cli.documents import fail, services_or_fail
from llmservice.process.settings import StartupError, load_fleet
from llmservice.repository.errors import RenderError
from llmservice.workload.engine_build import EngineTarget, build_engine_job


def print_job(file: Path, target: EngineTarget, *, family: str, fleet_file: Path | None) -> None:
    """Prints a Job for each service in `file`. Ends the command at the first that cannot be built."""
    try:
        fleet = with_built_in_pools(load_fleet(fleet_file))
    except StartupError as error:
        raise fail(str(error)) from error
    for document in services_or_fail(file):
        service = LLMService.parse(dict(document.manifest))
        capacity = plan_capacity(service, fleet)
        try:
            job = build_engine_job(service, capacity, fleet, target, family)
        except RenderError as error:
            raise fail(f"{document.label}: {error}") from error
        pool = fleet.pools[service.spec.placement.pool]
        accelerator = find_accelerator(pool.accelerator)
        built = ".".join(map(str, accelerator.compute_capability)) if accelerator else ""
        typer.echo(
            "# Builds on a GPU of the pool, so it runs in the cluster only: kubectl apply -f -, and kubectl logs -f\n"
            f"# job/{job['metadata']['name']}. Afterwards write into the service:\n"
            f"#   model: {{source: {{pvc: {{claimName: {target.claim}, path: {target.path}}}}}, "
            "tokenizer: {path: tokenizer}}\n"
            "#   engine: {tensorrtllm: {runtime: Engine, engine: "
            f'{{computeCapability: "{built}", maxBatchSize: {capacity.max_sequences}}}}}}}'
        )
        typer.echo(yaml.safe_dump(job, sort_keys=False, explicit_start=True), nl=False)
