"""Faults and progress of a pod's start: image, weights, model."""

from __future__ import annotations

import re

from llmservice.api.reasons import Reason
from llmservice.diagnose.finding import Evidence, Finding
from llmservice.diagnose.pod import EXIT_SIGKILL, Container, Termination
from llmservice.diagnose.triton_log import accelerator_memory_failure, model_failure
from llmservice.diagnose.weights_progress import cause_of, in_words, is_moving
from llmservice.workload.names import (
    CODE_CONTAINER,
    CONVERT_CONTAINER,
    LEASE_CONTAINER,
    REPOSITORY_CONTAINER,
    WEIGHTS_CONTAINER,
)

SUPERVISOR = "llmservice: ending tritonserver"
"""How the termination message begins where our own watch in the container ended Triton; what follows says why."""
_PULL_FAULTS = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
_PULL_EVENT = re.compile(r'Failed to pull image "[^"]+": (?P<text>.+)', re.DOTALL)
_RPC = re.compile(r"rpc error: code = \w+ desc = ")
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]+"(?:: ErrImagePull)?:?\s*')
_LESS_MEMORY = (
    "lower spec.batching.maxSequences, spec.model.maxLength or spec.kvCache.memoryPercent, "
    "or choose a pool with more memory"
)


def image_pull_failed(evidence: Evidence) -> Finding | None:
    """An image cannot be had; the registry's own words are the message."""
    faulty = next((one for one in evidence.pod.containers if one.waiting in _PULL_FAULTS), None)
    if faulty is None:
        return None
    text = _BACK_OFF.sub("", faulty.waiting_message)
    if not text:
        pulls = [found for found in map(_PULL_EVENT.search, evidence.events) if found is not None]
        text = pulls[-1]["text"] if pulls else faulty.waiting
    text = _RPC.sub("", " ".join(text.split()))
    return Finding(
        Reason.IMAGE_PULL_FAILED,
        f"image {faulty.image!r} cannot be pulled: {text}. Check spec.engine.image (or the fleet's default), "
        "spec.template.imagePullSecrets, and that the node reaches the registry",
    )


def weights_failed(evidence: Evidence) -> Finding | None:
    """The container that brings the weights ended with an error."""
    failure = _init_failure(evidence, WEIGHTS_CONTAINER, moves=is_moving(_last_line(evidence.weights_log)))
    if failure is None:
        return None
    if failure.reason == "OOMKilled":
        return Finding(Reason.OUT_OF_MEMORY, "bringing the weights ran out of memory: raise spec.template.resources")
    text = failure.message.strip() or cause_of(_last_line(evidence.weights_log)) or f"exit code {failure.exit_code}"
    return Finding(
        Reason.MODEL_SOURCE_FAILED, f"the model's files could not be brought: {text}. Check spec.model.source"
    )


def conversion_failed(evidence: Evidence) -> Finding | None:
    """The container that makes what engines read of a GGUF file ended with an error."""
    failure = _init_failure(evidence, CONVERT_CONTAINER)
    if failure is None:
        return None
    if failure.reason == "OOMKilled":
        return Finding(Reason.OUT_OF_MEMORY, "converting the GGUF file ran out of memory: take safetensors files")
    return Finding(
        Reason.MODEL_SOURCE_FAILED,
        f"the GGUF file could not be converted: {_in_words(failure)}. Check spec.model.source.huggingFace.file",
    )


def lease_failed(evidence: Evidence) -> Finding | None:
    """The container that holds the pod's lease on its weights ended with an error, so the weights do not come."""
    failure = _init_failure(evidence, LEASE_CONTAINER)
    if failure is None:
        return None
    text = _last_line(failure.message) or f"exit code {failure.exit_code}"
    return Finding(Reason.MODEL_SOURCE_FAILED, f"the cache of weights cannot be used: {LEASE_CONTAINER}: {text}")


def repository_failed(evidence: Evidence) -> Finding | None:
    """The container that writes the Triton repository ended with an error."""
    failure = _init_failure(evidence, REPOSITORY_CONTAINER)
    if failure is None:
        return None
    return Finding(
        Reason.CRASH_LOOP,
        f"the Triton repository could not be written: {_in_words(failure)}. Check the operator's image and its version",
    )


def code_failed(evidence: Evidence) -> Finding | None:
    """The container that takes the code of NVIDIA's models from NVIDIA's image ended with an error."""
    failure = _init_failure(evidence, CODE_CONTAINER)
    if failure is None:
        return None
    text = f"the image has no code for this backend: {_in_words(failure)}. Check spec.engine.image"
    return Finding(Reason.CRASH_LOOP, text)


def _init_failure(evidence: Evidence, name: str, *, moves: bool = True) -> Termination | None:
    """How an init container failed last; None where it did not, or where another try runs, and moves."""
    container = evidence.pod.init(name)
    if container is None or (container.running_since and moves):
        return None
    return container.failure


def _in_words(failure: Termination) -> str:
    return failure.message.strip() or f"exit code {failure.exit_code}"


def out_of_memory(evidence: Evidence) -> Finding | None:
    """The kernel killed Triton for memory, or the accelerator's memory ran out."""
    main = evidence.pod.main
    failure = main.failure if main else None
    if failure is None:
        return None
    line = accelerator_memory_failure(evidence.log) or accelerator_memory_failure(failure.message)
    if line:
        return Finding(Reason.OUT_OF_MEMORY, f"the accelerator's memory ran out: {line}. To fit, {_LESS_MEMORY}")
    if failure.reason == "OOMKilled" or _looks_like_memory(evidence):
        return Finding(
            Reason.OUT_OF_MEMORY,
            "the container's memory limit was reached and the kernel killed it: raise "
            "spec.template.resources.limits.memory",
        )
    return None


def _looks_like_memory(evidence: Evidence) -> bool:
    """A SIGKILL that nobody else claims, of a container that has a limit: some runtimes do not say OOMKilled."""
    main = evidence.pod.main
    failure = main.failure if main else None
    if main is None or failure is None or failure.exit_code != EXIT_SIGKILL or not main.memory_limit:
        return False
    return SUPERVISOR not in failure.message and not _probe_kill(evidence)


def model_load_failed(evidence: Evidence) -> Finding | None:
    """Triton says that a model did not load; Triton's own words are the message."""
    main = evidence.pod.main
    if main is None or main.failure is None:
        return None
    failed = model_failure(evidence.log) or model_failure(main.failure.message)
    if failed is None:
        return None
    which = f"model {failed.model!r}" if failed.model else "a model"
    return Finding(
        Reason.MODEL_LOAD_FAILED,
        f"Triton could not load {which}: {failed.text}. `kubectl logs {evidence.pod.name} -c {main.name} --previous` "
        "has the whole text",
    )


def probe_failed(evidence: Evidence) -> Finding | None:
    """The kubelet ended Triton because a probe failed too often."""
    main, killed = evidence.pod.main, _probe_kill(evidence)
    if main is None or main.failure is None or not killed:
        return None
    if "startup" in killed:
        text = "Triton did not have its models loaded in the time it was given, and was started again: look at "
    else:
        text = "Triton stopped answering, and was started again: look at "
    return Finding(
        Reason.CRASH_LOOP,
        f"{text}`kubectl logs {evidence.pod.name} -c {main.name} --previous` for what it was doing ({killed})",
    )


def crash_loop(evidence: Evidence) -> Finding | None:
    """Triton ends again and again, for a reason its log does not name."""
    main = evidence.pod.main
    failure = main.failure if main else None
    if main is None or failure is None:
        return None
    last = failure.message.strip() or _last_line(evidence.log)
    text = f": {last}" if last else ""
    count = "1 restart" if main.restarts == 1 else f"{main.restarts} restarts"
    return Finding(
        Reason.CRASH_LOOP,
        f"Triton ended with exit code {failure.exit_code} ({count}){text}. "
        f"See `kubectl logs {evidence.pod.name} -c {main.name} --previous`",
    )


def endpoint_failed(evidence: Evidence) -> Finding | None:
    """The container of the OpenAI endpoint ended with an error, so the pod is not ready though Triton may be."""
    endpoint = evidence.pod.endpoint
    failure = endpoint.failure if endpoint else None
    if failure is None:
        return None
    if failure.reason == "OOMKilled":
        text = "it ran out of memory: lower spec.service.openAI.maxRequestSize"
    else:
        text = f"{_last_line(failure.message) or f'exit code {failure.exit_code}'}. Check spec.service.openAI"
    return Finding(Reason.CRASH_LOOP, f"the OpenAI endpoint ended: {text}")


def pulling_image(evidence: Evidence) -> Finding | None:
    """An image is on its way to the node."""
    begun = [text for text in evidence.events if text.startswith("Pulling:")]
    done = [text for text in evidence.events if text.startswith("Pulled:")]
    waits = [one for one in evidence.pod.containers if one.waiting in {"ContainerCreating", "PodInitializing"}]
    if not waits or len(begun) <= len(done):
        return None
    return Finding(Reason.PULLING_IMAGE, begun[-1].removeprefix("Pulling: "), fault=False)


def fetching_weights(evidence: Evidence) -> Finding | None:
    """The weights are on their way; the container's last line says how far."""
    weights, convert = evidence.pod.init(WEIGHTS_CONTAINER), evidence.pod.init(CONVERT_CONTAINER)
    if convert is not None and convert.running_since:
        return Finding(Reason.FETCHING_WEIGHTS, "the GGUF file is there, and is being converted", fault=False)
    if weights is None or not weights.running_since:
        return None
    return Finding(Reason.FETCHING_WEIGHTS, in_words(_last_line(evidence.weights_log)), fault=False)


def stopped_answering(evidence: Evidence) -> Finding | None:
    """Triton had its models loaded, runs, and does not answer any more."""
    main = evidence.pod.main
    if main is None or main.ready or not main.running_since or not main.started:
        return None
    failed = [text for text in evidence.events if text.startswith("Unhealthy: Readiness probe")]
    if not failed:
        return None  # it has started this moment: the first look is still to come
    said = failed[-1].removeprefix("Unhealthy: ")
    return Finding(
        Reason.NOT_ANSWERING,
        f"Triton runs and does not say that it is ready ({said}); if that lasts, Kubernetes starts it again. See "
        f"`kubectl logs {evidence.pod.name} -c {main.name}`",
    )


def loading_model(evidence: Evidence) -> Finding | None:
    """Triton runs and loads the model, or is about to: between two containers the status does not go back."""
    main, weights = evidence.pod.main, evidence.pod.init(WEIGHTS_CONTAINER)
    if main is None or evidence.pod.ready:
        return None
    if main.running_since:
        return Finding(Reason.LOADING_MODEL, "Triton runs and loads the model", fault=False)
    if weights is not None and weights.ended is not None and not weights.ended.exit_code:
        return Finding(Reason.LOADING_MODEL, "the model's files are there, and Triton is being started", fault=False)
    return None


def starting(evidence: Evidence) -> Finding | None:
    """Nothing is wrong that can be seen; the pod is on its way."""
    if evidence.pod.ready:
        return None
    return Finding(Reason.STARTING, "the pod is being created", fault=False)


def needs_log(container: Container | None) -> bool | None:
    """Which log explains a failure: True the one before the restart, False the present one, None: none failed."""
    if container is None or container.failure is None:
        return None
    return container.ended is None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _probe_kill(evidence: Evidence) -> str:
    """The kubelet's words for ending the container over a probe; empty where it did not."""
    texts = [text.partition(": ")[2] for text in evidence.events if text.startswith("Killing:") and "probe" in text]
    return texts[-1] if texts else ""
