"""Every condition type and every reason: the one table that status, events, docs and tests use."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class _Explained(StrEnum):
    """A word of the API with what it means; the reference in docs/ is made of these."""

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


class ConditionType(_Explained):
    """Conditions of a service. `Unknown` until evaluated."""

    READY = "Ready", "Requests are answered."
    PROGRESSING = "Progressing", "The operator is on its way to what the spec asks for."
    DEGRADED = "Degraded", "It serves, but with less than the spec asks for."
    SPEC_VALID = "SpecValid", "The spec can be carried out. Warnings are in the message and in status.warnings."
    CAPACITY_FITS = "CapacityFits", "The model fits on the pool's accelerator."
    SIGNALS_TRUSTED = "SignalsTrusted", "The measured signals are fresh and agree, so that knobs may follow them."


class Reason(_Explained):
    """Why a condition has its status. A reason names the cause, never the kind of a child."""

    # Ready and Progressing
    SERVING = "Serving", "Every wanted replica answers."
    SCALED_TO_ZERO = "ScaledToZero", "No replica is wanted."
    STARTING = "Starting", "The first replicas are on their way."
    UPDATING = "Updating", "A new revision replaces the old one."
    SCALING = "Scaling", "Replicas are being added or removed."
    DELETING = "Deleting", "The service is being deleted."
    SETTLED = "Settled", "Nothing is left to do."
    # What keeps replicas from serving, the most specific first
    INVALID_SPEC = "InvalidSpec", "The spec breaks a rule. Nothing changes until it is corrected; what serves goes on."
    DOES_NOT_FIT = "DoesNotFit", "The model needs more memory than the pool's accelerator has."
    NAME_CONFLICT = "NameConflict", "An object of another owner has the name of a child. It is not touched."
    NAMESPACE_TERMINATING = "NamespaceTerminating", "The namespace is being deleted, so nothing can be created in it."
    FORBIDDEN = "Forbidden", "The operator lacks a permission; the message names it."
    UNKNOWN_POOL = "UnknownPool", "placement.pool names no pool of the fleet."
    SECRET_MISSING = "SecretMissing", "A Secret that the spec names does not exist or lacks a key."
    VOLUME_MISSING = "VolumeMissing", "A claim or volume that the spec names does not exist or cannot be mounted."
    MODEL_SOURCE_FAILED = "ModelSourceFailed", "The model's files could not be fetched; the message says why."
    IMAGE_PULL_FAILED = "ImagePullFailed", "An image could not be pulled."
    MODEL_LOAD_FAILED = "ModelLoadFailed", "Triton refused or failed to load the model; the message is Triton's own."
    OUT_OF_MEMORY = "OutOfMemory", "A container or the accelerator ran out of memory."
    CRASH_LOOP = "CrashLoop", "A container ends again and again."
    NOT_ANSWERING = "NotAnswering", "Triton had its models loaded and does not answer any more."
    API_MISSING = "ApiMissing", "The cluster does not serve an API that the spec needs; the message names it."
    WAITING_FOR_QUEUE = "WaitingForQueue", "Kueue holds the pods back until their queue has room for them."
    WAITING_FOR_GPU = "WaitingForGPU", "No node of the pool has enough free accelerators; the message counts them."
    UNSCHEDULABLE = "Unschedulable", "No node takes the pods, for another reason than accelerators."
    QUOTA_EXCEEDED = "QuotaExceeded", "A ResourceQuota of the namespace refuses the pods."
    PULLING_IMAGE = "PullingImage", "An image is being pulled."
    FETCHING_WEIGHTS = "FetchingWeights", "The model's files are being fetched."
    LOADING_MODEL = "LoadingModel", "Triton loads the model."
    LIVE_CHANGE_FAILED = "LiveChangeFailed", "A change of a serving replica failed; the old setting stays."
    # Other conditions
    VALID = "Valid", "Nothing is wrong with the spec."
    ACCEPTED_WITH_WARNINGS = "AcceptedWithWarnings", "The spec is valid, but parts of it are likely wrong or idle."
    FITS = "Fits", "The capacity plan holds."
    UNKNOWN_MODEL = "UnknownModel", "The model is not known well enough to plan its memory."
    NOT_EVALUATED = "NotEvaluated", "Not judged yet."
    SIGNALS_AGREE = "SignalsAgree", "Independent sources of the signals agree."
    SIGNALS_MISSING = "SignalsMissing", "Nothing trustworthy is measured, so the knobs stay where they are."
    SIGNALS_CONTRADICT = (
        "SignalsContradict",
        "Measured figures cannot be true together, so the knobs stay where they are.",
    )
    TUNED = "Tuned", "The tuner moved a knob; the message says which, and why."
    HEALTHY = "Healthy", "Nothing is degraded."
