"""Triton's command line."""

from __future__ import annotations

from typing import Final

from llmservice.api.service import LLMService
from llmservice.repository.features import TritonFeatures
from llmservice.repository.layout import engine_name, gate_name
from llmservice.workload.names import GRPC_PORT, HTTP_PORT, METRICS_PORT, TOKEN_HEADER
from llmservice.workload.probes import exit_timeout

TOKEN_VARIABLE: Final = "TRITON_TOKEN"  # noqa: S105 - the name of a variable, not a secret
RESTRICTED: Final = "model-repository,model-config,shared-memory,statistics,trace,logging"
"""What only the operator calls. Health, metadata and inference stay open to clients and probes."""


def triton_arguments(service: LLMService, features: TritonFeatures) -> list[str]:
    """Arguments of `tritonserver`; only flags that the image's version knows.

    The token comes by the kubelet's `$(…)` expansion from a Secret, so it stands in no manifest.
    """
    name = service.metadata.name
    arguments = [
        "--model-repository=/repository",
        "--model-control-mode=explicit",
        f"--load-model={engine_name(name)}",
        f"--load-model={gate_name(name)}",
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
