"""Names of a service's children, their labels and annotations: the one place that makes them."""

from __future__ import annotations

from typing import Final

from llmservice.api.service import GROUP, MAX_NAME_LENGTH
from llmservice.repository.errors import RenderError

REVISION_LENGTH: Final = 8

MANAGED_BY: Final = "triton-llm-operator"
"""Also the field manager of everything but the status."""

NAME_LABEL: Final = "app.kubernetes.io/name"
WORKER_NAME: Final = "llmservice-worker"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
REVISION_LABEL: Final = f"{GROUP}/revision"
INPUTS_ANNOTATION: Final = f"{GROUP}/inputs"
"""On a Deployment: the inputs its revision was rendered from (docs/decisions/0003)."""
LIVE_INPUTS_ANNOTATION: Final = f"{GROUP}/live-inputs"
"""On a revision's ConfigMap: digest of the knobs and gate fields its live parts were rendered from."""
TRITON_VERSION_ANNOTATION: Final = f"{GROUP}/triton-version"
"""On a pod: the Triton version its repository was rendered for."""

CLAIMED_ANNOTATION: Final = f"{GROUP}/claimed"
"""On a pod that claims its accelerators: how many of which DeviceClass, as JSON."""

SECRET_SUFFIX: Final = "-triton"  # noqa: S105 - the end of a name, not a secret
TOKEN_KEY: Final = "token"  # noqa: S105 - the name of a key, not a secret
TOKEN_HEADER: Final = "triton-llm-token"  # noqa: S105 - the name of a header, not a secret
"""Header of Triton's restricted APIs over HTTP; over gRPC Triton wants `triton-grpc-protocol-` before it."""

TRITON_CONTAINER: Final = "triton"
REPOSITORY_CONTAINER: Final = "repository"
CODE_CONTAINER: Final = "code"
WEIGHTS_CONTAINER: Final = "weights"
CONVERT_CONTAINER: Final = "convert"
LEASE_CONTAINER: Final = "weights-lease"
OPENAI_CONTAINER: Final = "openai"

WORKER_CONTAINER: Final = "worker"
"""Of the pods that hold a part of an engine over several nodes, and take no request."""

HTTP_PORT: Final = 8000
GRPC_PORT: Final = 8001
METRICS_PORT: Final = 8002
OPENAI_PORT: Final = 8003
OPENAI_ADMIN_PORT: Final = 8004
"""Health and metrics of the OpenAI endpoint, apart from it: without keys, without TLS, and not for clients."""


def checked(service: str) -> str:
    """`service` itself. Raises RenderError when children's names would be too long."""
    if len(service) > MAX_NAME_LENGTH:
        raise RenderError(
            "metadata.name",
            f"has {len(service)} characters; children carry it with a revision behind it: "
            f"write at most {MAX_NAME_LENGTH}",
        )
    return service


def revision_name(service: str, revision: str) -> str:
    """The Deployment and the ConfigMap of one revision."""
    return f"{checked(service)}-{revision}"


def shared_name(service: str) -> str:
    """Service, ServiceAccount, PodDisruptionBudget, PodMonitor and NetworkPolicy."""
    return checked(service)


def memory_name(service: str) -> str:
    """The ConfigMap with what the tuner remembers."""
    return f"{checked(service)}-tuning"


def secret_name(service: str) -> str:
    """The Secret with the token of the restricted APIs."""
    return checked(service) + SECRET_SUFFIX


def replica_selector(service: str) -> dict[str, str]:
    """Labels that select the pods with Triton, one a replica, whatever their revision."""
    return {label: value for label, value in search_labels(checked(service)).items() if label != MANAGED_BY_LABEL}


def worker_labels(service: str, revision: str | None = None) -> dict[str, str]:
    """Labels of the pods that help a leader: their other name keeps the Service off them, and who counts replicas."""
    return labels(service, revision) | {NAME_LABEL: WORKER_NAME}


def pod_selector(service: str) -> dict[str, str]:
    """Labels that select every pod of a service, with Triton or not."""
    return {INSTANCE_LABEL: checked(service), MANAGED_BY_LABEL: MANAGED_BY}


def search_labels(service: str) -> dict[str, str]:
    """Labels by which the children of a service are found; a name that is too long simply finds none."""
    return {NAME_LABEL: "llmservice", INSTANCE_LABEL: service, MANAGED_BY_LABEL: MANAGED_BY}


def labels(service: str, revision: str | None = None) -> dict[str, str]:
    """Labels of a child; with `revision`, of what belongs to that revision."""
    common = search_labels(checked(service))
    return common if revision is None else common | {REVISION_LABEL: revision}
