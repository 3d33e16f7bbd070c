"""Pods whose containers have begun: images, weights, repository, Triton."""

from __future__ import annotations

from llmservice.api.reasons import Reason
from tests.unit.diagnose.pod_cases import (
    INITIALIZED,
    LOGS,
    RUNNING,
    SCHEDULED,
    Case,
    failed,
    fetching,
    initialized,
    together,
    triton,
    waiting,
)

CASES = [
    Case(
        "the image is not in the registry",
        Reason.IMAGE_PULL_FAILED,
        "failed to resolve reference",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "containerStatuses": triton(
                waiting(
                    "ErrImagePull",
                    "rpc error: code = NotFound desc = failed to pull and unpack image: failed to resolve reference "
                    '"registry.example/triton:9": registry.example/triton:9: not found',
                )
            ),
        },
    ),
    Case(
        "the back-off hides the registry's words, the events have them",
        Reason.IMAGE_PULL_FAILED,
        "401 Unauthorized",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "containerStatuses": triton(waiting("ImagePullBackOff", 'Back-off pulling image "registry.example/t:1"')),
        },
        events=(
            'Failed: Failed to pull image "registry.example/t:1": rpc error: code = Unknown desc = unexpected status '
            "from HEAD request: 401 Unauthorized",
        ),
    ),
    Case(
        "the weights' step failed",
        Reason.MODEL_SOURCE_FAILED,
        "UNAUTHORIZED: the hub wants a token",
        fetching("weights", waiting("CrashLoopBackOff"), failed(4, message="UNAUTHORIZED: the hub wants a token")),
    ),
    Case(
        "the weights' step failed, and a new try has found nothing yet",
        Reason.MODEL_SOURCE_FAILED,
        "NETWORK: the hub could not be reached",
        fetching("weights", RUNNING, failed(6, message="NETWORK: the hub could not be reached")),
        weights_log='{"phase": "list", "percent": null, "bytes": 0, "total_bytes": null}\n',
    ),
    Case(
        "the weights' step failed, and a new try fetches",
        Reason.FETCHING_WEIGHTS,
        "download: 40 % of 2.7 GB",
        fetching("weights", RUNNING, failed(6, message="NETWORK: the hub could not be reached")),
        weights_log='{"phase": "download", "percent": 44.8, "bytes": 1200000000, "total_bytes": 2680000000}\n',
        fault=False,
    ),
    Case(
        "the cache of the weights cannot be used",
        Reason.MODEL_SOURCE_FAILED,
        "weights-lease: /cache/leases: Permission denied",
        fetching(
            "weights-lease",
            waiting("CrashLoopBackOff"),
            failed(1, message="/cache/leases: Permission denied: its folder must belong to user 1000"),
        ),
    ),
    Case(
        "the cache cannot be used, which the weights' step met a moment later: the cause told first stays",
        Reason.MODEL_SOURCE_FAILED,
        "weights-lease: /cache/leases is not ours",
        together(
            fetching("weights-lease", waiting("CrashLoopBackOff"), failed(1, message="/cache/leases is not ours")),
            fetching("weights", waiting("CrashLoopBackOff"), failed(1, message="/cache/lock is not ours")),
        ),
    ),
    Case(
        "the weights are on their way",
        Reason.FETCHING_WEIGHTS,
        "download: 40 % of 2.7 GB, 85 MB/s, about 20 s left",
        fetching("weights", RUNNING),
        weights_log='{"phase": "download", "percent": 44.8, "bytes": 1200000000, "total_bytes": 2680000000, '
        '"bytes_per_second": 85123456, "eta_seconds": 17.4}\n',
        fault=False,
    ),
    Case(
        "the repository could not be written",
        Reason.CRASH_LOOP,
        "format 2 is not 1",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": [{"name": "repository", "state": failed(1, message="format 2 is not 1")}],
            "containerStatuses": triton(waiting("PodInitializing")),
        },
    ),
    Case(
        "the image is being pulled",
        Reason.PULLING_IMAGE,
        'Pulling image "nvcr.io/nvidia/tritonserver:26.07-py3"',
        {"phase": "Pending", "conditions": [SCHEDULED], "containerStatuses": triton(waiting("ContainerCreating"))},
        events=('Pulling: Pulling image "nvcr.io/nvidia/tritonserver:26.07-py3"',),
        fault=False,
    ),
    Case(
        "the container's memory is too small",
        Reason.OUT_OF_MEMORY,
        "spec.template.resources.limits.memory",
        initialized(triton(waiting("CrashLoopBackOff"), last=failed(137, "OOMKilled"), restarts=3)),
    ),
    Case(
        "the accelerator's memory is too small",
        Reason.OUT_OF_MEMORY,
        "Tried to allocate 2.00 GiB",
        initialized(triton(waiting("CrashLoopBackOff"), last=failed(1), restarts=1)),
        log="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 39.5 GiB",
    ),
    Case(
        "the node ran out of memory",
        Reason.OUT_OF_MEMORY,
        "evicted",
        {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
            "conditions": [SCHEDULED],
        },
    ),
    Case(
        "the node had no accelerator left",
        Reason.WAITING_FOR_GPU,
        "a new pod is tried",
        {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
            "nvidia.com/gpu. Requested: 1, Available: 0",
        },
    ),
    Case(
        "the model does not load",
        Reason.MODEL_LOAD_FAILED,
        "Triton could not load model 'chat-engine': FileNotFoundError: no *.safetensors under /models/smollm2",
        initialized(triton(waiting("CrashLoopBackOff"), last=failed(1), restarts=2)),
        log=(LOGS / "engine_failed.log").read_text(),
    ),
    Case(
        "the model does not load and the container has not been restarted yet",
        Reason.MODEL_LOAD_FAILED,
        "FileNotFoundError",
        initialized(triton(failed(1))),
        log=(LOGS / "engine_failed.log").read_text(),
    ),
    Case(
        "loading takes longer than the startup probe allows",
        Reason.CRASH_LOOP,
        "did not have its models loaded in the time",
        initialized(triton(RUNNING, last=failed(137), restarts=1)),
        events=("Killing: Container triton failed startup probe, will be restarted",),
    ),
    Case(
        "Triton ends for a reason that its log does not name",
        Reason.CRASH_LOOP,
        "exit code 139 (4 restarts): Signal (11) received.",
        initialized(triton(waiting("CrashLoopBackOff"), last=failed(139), restarts=4)),
        log="Signal (11) received.\n",
    ),
    Case(
        "the model is being loaded",
        Reason.LOADING_MODEL,
        "loads the model",
        initialized(triton(RUNNING)),
        fault=False,
    ),
    Case(
        "the weights are there and Triton does not run yet",
        Reason.LOADING_MODEL,
        "Triton is being started",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": INITIALIZED,
            "containerStatuses": triton(waiting("PodInitializing")),
        },
        fault=False,
    ),
    Case("the pod was just made", Reason.STARTING, "being created", {"phase": "Pending"}, fault=False),
]
