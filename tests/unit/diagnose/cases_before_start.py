"""Pods of which no container has begun: no node takes them, or a Secret or a volume is missing."""

from __future__ import annotations

from llmservice.api.reasons import Reason
from tests.unit.diagnose.pod_cases import INITIALIZED, SCHEDULED, Case, triton, unscheduled, waiting

CASES_BEFORE_START = [
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
        "the folder of the model is not there",
        Reason.VOLUME_MISSING,
        "/m is not a directory: put the model there on each node of the pool",
        {"phase": "Pending", "conditions": [SCHEDULED], "containerStatuses": triton(waiting("ContainerCreating"))},
        events=(
            'FailedMount: MountVolume.SetUp failed for volume "source" : hostPath type check failed: /m is not a '
            "directory",
            "FailedMount: Unable to attach or mount volumes: unmounted volumes=[source]: timed out",
        ),
    ),
    Case(
        "the volume is attached to another node",
        Reason.VOLUME_MISSING,
        "volume 'pvc-1' is attached to another node, and may be to one alone: take a claim that several nodes may read",
        {"phase": "Pending", "conditions": [SCHEDULED], "containerStatuses": triton(waiting("ContainerCreating"))},
        events=(
            'FailedAttachVolume: Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one '
            "node and can't be attached to another",
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
]
