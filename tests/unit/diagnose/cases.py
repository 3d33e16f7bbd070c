"""Pod states as the kubelet and the scheduler write them, each with the cause it is to be read as."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmservice.api.reasons import Reason

LOGS = Path(__file__).parent / "logs"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
RUNNING = {"running": {"startedAt": "2026-01-01T00:01:00Z"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
INITIALIZED = [{"name": "repository", "state": DONE}, {"name": "weights", "state": DONE}]


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def failed(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def triton(
    state: dict[str, Any], *, last: dict[str, Any] | None = None, restarts: int = 0, started: bool = False
) -> list[dict[str, Any]]:
    return [
        {
            "name": "triton",
            "image": "nvcr.io/nvidia/tritonserver:26.07-py3",
            "ready": False,
            "restartCount": restarts,
            "state": state,
            "lastState": last or {},
            "started": started,
        }
    ]


@dataclass(frozen=True)
class Case:
    """A pod's status and what it means."""

    name: str
    reason: Reason
    says: str
    status: dict[str, Any] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    log: str = ""
    weights_log: str = ""
    limits: dict[str, str] = field(default_factory=dict)
    fault: bool = True
    claimed: str = "{}"
    gates: tuple[str, ...] = ()


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [condition]}


CASES = [
    Case(
        "accelerators are taken",
        Reason.WAITING_FOR_GPU,
        "no node has 2 nvidia.com/gpu free",
        unscheduled(
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient "
            "nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
        ),
        limits={"nvidia.com/gpu": "2"},
    ),
    Case(
        "a MIG profile is taken",
        Reason.WAITING_FOR_GPU,
        "nvidia.com/mig-3g.20gb",
        unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/mig-3g.20gb."),
    ),
    Case(
        "the pool has no node",
        Reason.WAITING_FOR_GPU,
        "1 nvidia.com/gpu missing, for no node belongs to the pool",
        unscheduled("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
        limits={"nvidia.com/gpu": "1"},
    ),
    Case(
        "no node matches",
        Reason.UNSCHEDULABLE,
        "node selector and tolerations",
        unscheduled("0/2 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: }."),
    ),
    Case(
        "a scheduling gate",
        Reason.UNSCHEDULABLE,
        "scheduling gate example.com/licence: whoever set the gate has to lift it",
        unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        fault=False,
        gates=("example.com/licence",),
    ),
    Case(
        "Kueue holds it",
        Reason.WAITING_FOR_QUEUE,
        "not yet admitted the pod to queue team-a",
        unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        limits={"nvidia.com/gpu": "1"},
        fault=False,
        gates=("kueue.x-k8s.io/admission",),
    ),
    Case(
        "lower priorities make room",
        Reason.WAITING_FOR_GPU,
        "node gpu-7 is being freed for it",
        unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.") | {"nominatedNodeName": "gpu-7"},
        limits={"nvidia.com/gpu": "1"},
        fault=False,
    ),
    Case(
        "every device is claimed",
        Reason.WAITING_FOR_GPU,
        "no node has 2 gpu.nvidia.com free to claim",
        unscheduled("0/3 nodes are available: 3 cannot allocate all claims. still not schedulable, preemption: none."),
        claimed='{"gpu.nvidia.com": 2}',
    ),
    Case(
        "no driver for the claim",
        Reason.WAITING_FOR_GPU,
        "there is no DeviceClass gpu.nvidia.com: install the driver",
        unscheduled("request accelerators: device class gpu.nvidia.com does not exist"),
        claimed='{"gpu.nvidia.com": 2}',
    ),
    Case(
        "a required spread",
        Reason.UNSCHEDULABLE,
        "write placement.spread: Preferred",
        unscheduled("0/4 nodes are available: 4 node(s) didn't match pod topology spread constraints."),
        limits={"nvidia.com/gpu": "1"},
    ),
    Case(
        "the claim is not there",
        Reason.VOLUME_MISSING,
        "'weights' not found",
        unscheduled('0/1 nodes are available: persistentvolumeclaim "weights" not found.'),
    ),
    Case(
        "the claim is not bound",
        Reason.VOLUME_MISSING,
        "storage class",
        unscheduled("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
    ),
    Case(
        "a Secret is not there",
        Reason.SECRET_MISSING,
        "Secret 'hf' is not there",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": [
                INITIALIZED[0],
                {"name": "weights", "state": waiting("CreateContainerConfigError", 'secret "hf" not found')},
            ],
            "containerStatuses": triton(waiting("PodInitializing")),
        },
    ),
    Case(
        "the Secret that the operator writes is gone",
        Reason.SECRET_MISSING,
        "it is written again",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "containerStatuses": triton(waiting("CreateContainerConfigError", 'secret "chat-triton" not found')),
        },
        fault=False,
    ),
    Case(
        "a Secret lacks the key",
        Reason.SECRET_MISSING,
        "Secret 'hf' has no key 'token'",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "containerStatuses": triton(
                waiting("CreateContainerConfigError", "couldn't find key token in Secret chat/hf")
            ),
        },
    ),
    Case(
        "a volume does not mount",
        Reason.VOLUME_MISSING,
        "volume 'models' cannot be mounted",
        {"phase": "Pending", "conditions": [SCHEDULED], "containerStatuses": triton(waiting("ContainerCreating"))},
        events=(
            'FailedMount: MountVolume.SetUp failed for volume "models" : hostPath type check failed: /m is not a dir',
        ),
    ),
    Case(
        "a volume that mounted at the second try explains nothing any more",
        Reason.IMAGE_PULL_FAILED,
        "no such host",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": [
                INITIALIZED[0],
                {"name": "weights", "state": waiting("ErrImagePull", "no such host")},
            ],
            "containerStatuses": triton(waiting("PodInitializing")),
        },
        events=(
            'FailedMount: MountVolume.SetUp failed for volume "rendered" : failed to sync configmap cache: timed out',
        ),
    ),
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
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": [
                INITIALIZED[0],
                {
                    "name": "weights",
                    "state": waiting("CrashLoopBackOff"),
                    "lastState": failed(4, message="UNAUTHORIZED: the hub wants a token"),
                },
            ],
            "containerStatuses": triton(waiting("PodInitializing")),
        },
    ),
    Case(
        "the weights' step failed, and a new try has found nothing yet",
        Reason.MODEL_SOURCE_FAILED,
        "NETWORK: the hub could not be reached",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": [
                INITIALIZED[0],
                {
                    "name": "weights",
                    "state": RUNNING,
                    "lastState": failed(6, message="NETWORK: the hub could not be reached"),
                },
            ],
            "containerStatuses": triton(waiting("PodInitializing")),
        },
        weights_log='{"phase": "list", "percent": null, "bytes": 0, "total_bytes": null}\n',
    ),
    Case(
        "the weights' step failed, and a new try fetches",
        Reason.FETCHING_WEIGHTS,
        "download: 40 % of 2.7 GB",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": [
                INITIALIZED[0],
                {
                    "name": "weights",
                    "state": RUNNING,
                    "lastState": failed(6, message="NETWORK: the hub could not be reached"),
                },
            ],
            "containerStatuses": triton(waiting("PodInitializing")),
        },
        weights_log='{"phase": "download", "percent": 44.8, "bytes": 1200000000, "total_bytes": 2680000000}\n',
        fault=False,
    ),
    Case(
        "the cache of the weights cannot be used",
        Reason.MODEL_SOURCE_FAILED,
        "weights-lease: /cache/leases: Permission denied",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": [
                INITIALIZED[0],
                {
                    "name": "weights-lease",
                    "state": waiting("CrashLoopBackOff"),
                    "lastState": failed(
                        1, message="/cache/leases: Permission denied: its folder must belong to user 1000"
                    ),
                },
            ],
            "containerStatuses": triton(waiting("PodInitializing")),
        },
    ),
    Case(
        "the weights are on their way",
        Reason.FETCHING_WEIGHTS,
        "download: 40 % of 2.7 GB, 85 MB/s, about 20 s left",
        {
            "phase": "Pending",
            "conditions": [SCHEDULED],
            "initContainerStatuses": [INITIALIZED[0], {"name": "weights", "state": RUNNING}],
            "containerStatuses": triton(waiting("PodInitializing")),
        },
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
        {
            "phase": "Running",
            "conditions": [SCHEDULED],
            "initContainerStatuses": INITIALIZED,
            "containerStatuses": triton(waiting("CrashLoopBackOff"), last=failed(137, "OOMKilled"), restarts=3),
        },
    ),
    Case(
        "the accelerator's memory is too small",
        Reason.OUT_OF_MEMORY,
        "Tried to allocate 2.00 GiB",
        {
            "phase": "Running",
            "conditions": [SCHEDULED],
            "initContainerStatuses": INITIALIZED,
            "containerStatuses": triton(waiting("CrashLoopBackOff"), last=failed(1), restarts=1),
        },
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
        {
            "phase": "Running",
            "conditions": [SCHEDULED],
            "initContainerStatuses": INITIALIZED,
            "containerStatuses": triton(waiting("CrashLoopBackOff"), last=failed(1), restarts=2),
        },
        log=(LOGS / "engine_failed.log").read_text(),
    ),
    Case(
        "the model does not load and the container has not been restarted yet",
        Reason.MODEL_LOAD_FAILED,
        "FileNotFoundError",
        {
            "phase": "Running",
            "conditions": [SCHEDULED],
            "initContainerStatuses": INITIALIZED,
            "containerStatuses": triton(failed(1)),
        },
        log=(LOGS / "engine_failed.log").read_text(),
    ),
    Case(
        "loading takes longer than the startup probe allows",
        Reason.CRASH_LOOP,
        "did not have its models loaded in the time",
        {
            "phase": "Running",
            "conditions": [SCHEDULED],
            "initContainerStatuses": INITIALIZED,
            "containerStatuses": triton(RUNNING, last=failed(137), restarts=1),
        },
        events=("Killing: Container triton failed startup probe, will be restarted",),
    ),
    Case(
        "Triton ends for a reason that its log does not name",
        Reason.CRASH_LOOP,
        "exit code 139 (4 restarts): Signal (11) received.",
        {
            "phase": "Running",
            "conditions": [SCHEDULED],
            "initContainerStatuses": INITIALIZED,
            "containerStatuses": triton(waiting("CrashLoopBackOff"), last=failed(139), restarts=4),
        },
        log="Signal (11) received.\n",
    ),
    Case(
        "the model is being loaded",
        Reason.LOADING_MODEL,
        "loads the model",
        {
            "phase": "Running",
            "conditions": [SCHEDULED],
            "initContainerStatuses": INITIALIZED,
            "containerStatuses": triton(RUNNING),
        },
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
