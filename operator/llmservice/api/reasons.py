"""Every condition type and every reason: the one table that status, events, docs and tests use."""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """Conditions of a service. `Unknown` until evaluated."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    SPEC_VALID = "SpecValid"
    CAPACITY_FITS = "CapacityFits"
    SIGNALS_TRUSTED = "SignalsTrusted"


class Reason(StrEnum):
    """Why a condition has its status. A reason names the cause, never the kind of a child."""

    # Ready and Progressing
    SERVING = "Serving"
    SCALED_TO_ZERO = "ScaledToZero"
    STARTING = "Starting"
    UPDATING = "Updating"
    SCALING = "Scaling"
    DELETING = "Deleting"
    SETTLED = "Settled"
    # What keeps replicas from serving, the most specific first
    INVALID_SPEC = "InvalidSpec"
    DOES_NOT_FIT = "DoesNotFit"
    NAME_CONFLICT = "NameConflict"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    FORBIDDEN = "Forbidden"
    UNKNOWN_POOL = "UnknownPool"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a reason, not a secret
    VOLUME_MISSING = "VolumeMissing"
    MODEL_SOURCE_FAILED = "ModelSourceFailed"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    MODEL_LOAD_FAILED = "ModelLoadFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASH_LOOP = "CrashLoop"
    WAITING_FOR_GPU = "WaitingForGPU"
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    PULLING_IMAGE = "PullingImage"
    FETCHING_WEIGHTS = "FetchingWeights"
    LOADING_MODEL = "LoadingModel"
    LIVE_CHANGE_FAILED = "LiveChangeFailed"
    # Other conditions
    VALID = "Valid"
    ACCEPTED_WITH_WARNINGS = "AcceptedWithWarnings"
    FITS = "Fits"
    UNKNOWN_MODEL = "UnknownModel"
    NOT_EVALUATED = "NotEvaluated"
    SIGNALS_AGREE = "SignalsAgree"
    SIGNALS_MISSING = "SignalsMissing"
    HEALTHY = "Healthy"
