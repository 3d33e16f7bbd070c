"""Triton's command line."""

from __future__ import annotations

from typing import Final

from llmservice.api.service import LLMService
from llmservice.repository.features import TritonFeatures
from llmservice.repository.topology import engine_model, runs_engine, topology
from llmservice.workload.names import GRPC_PORT, HTTP_PORT, METRICS_PORT, TOKEN_HEADER
from llmservice.workload.probes import exit_timeout

TOKEN_VARIABLE: Final = "TRITON_TOKEN"  # noqa: S105 - the name of a variable, not a secret
RESTRICTED: Final = "model-repository,model-config,shared-memory,statistics,trace,logging"
"""What only the operator calls. Health, metadata and inference stay open to clients and probes."""


def triton_command(service: LLMService, features: TritonFeatures) -> list[str]:
    """The whole command. A TensorRT engine over several GPUs wants one tritonserver for each, started by mpirun.

    The others hold their part of the engine and open no port (NVIDIA/TensorRT-LLM, triton_backend/scripts,
    launch_triton_server.py, "leader mode").
    """
    first = ["tritonserver", *triton_arguments(service, features)]
    engine = service.spec.engine
    ranks = engine.parallelism.accelerators
    if ranks == 1 or not runs_engine(service):
        return first
    command = ["mpirun", "-n", "1", *first]
    for rank in range(1, ranks):
        command += [":", "-n", "1", *_rank_arguments(service, rank)]
    return command


def _rank_arguments(service: LLMService, rank: int) -> list[str]:
    return [
        "tritonserver",
        "--model-repository=/repository",
        "--model-control-mode=explicit",
        f"--load-model={engine_model(service).name}",
        "--disable-auto-complete-config",
        "--exit-on-error=true",
        "--allow-http=false",
        "--allow-grpc=false",
        "--allow-metrics=false",
        f"--backend-config=python,shm-region-prefix-name=rank{rank}_",
    ]


def triton_arguments(service: LLMService, features: TritonFeatures) -> list[str]:
    """Arguments of `tritonserver`; only flags that the image's version knows.

    The token comes by the kubelet's `$(…)` expansion from a Secret, so it stands in no manifest.
    """
    arguments = [
        "--model-repository=/repository",
        "--model-control-mode=explicit",
        *(f"--load-model={model.name}" for model in reversed(topology(service))),
        "--disable-auto-complete-config",
        "--strict-readiness=true",
        "--exit-on-error=true",
        f"--exit-timeout-secs={exit_timeout(service.spec.drain)}",
        f"--http-port={HTTP_PORT}",
        f"--grpc-port={GRPC_PORT}",
        f"--metrics-port={METRICS_PORT}",
        "--log-format=ISO8601",
    ]
    if features.restricted_apis:
        restricted = f"{RESTRICTED}:{TOKEN_HEADER}=$({TOKEN_VARIABLE})"
        arguments += [f"--http-restricted-api={restricted}", f"--grpc-restricted-protocol={restricted}"]
    if features.first_response_histogram:
        arguments.append("--metrics-config=histogram_latencies=true")
    return arguments
