r"""What tritonserver's own log says about a model that did not load.

Read from the logs of tritonserver 2.51. A model that fails writes, in this order:

    E… model_lifecycle.cc:642] "failed to load 'chat-engine' version 1: Internal: FileNotFoundError: …\n\nAt:\n  …"
    | chat-engine | 1       | UNAVAILABLE: Internal: FileNotFoundError: … |
    error: creating server: Invalid argument - load failed for model 'chat-engine': version 1 is at UNAVAILABLE …

and a repository that cannot be read writes, before any of these:

    [libprotobuf ERROR …] Error parsing text-format inference.ModelConfig: 7:6: Message type … has no field named "x".
    E… model_repository_manager.cc:1460] "Poll failed for model directory 'chat': failed to read text proto from …"
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FAILED_VERSION = re.compile(r"failed to load '(?P<model>[^']+)' version \d+: (?P<text>.+?)\"?$", re.MULTILINE)
_FAILED_SERVER = re.compile(
    r"load failed for model '(?P<model>[^']+)': version \d+ is at UNAVAILABLE state: (?P<text>[^\n]+)"
)
_FAILED_POLL = re.compile(r"Poll failed for model directory '(?P<model>[^']+)': (?P<text>.+?)\"?$", re.MULTILINE)
_FAILED_SERVER_SHORT = re.compile(r"error: creating server: (?P<text>[^\n]+)")
_PARSE = re.compile(r"Error parsing text-format inference\.ModelConfig: (?P<text>[^\n]+)")
_CUDA_MEMORY = re.compile(r"[^\n]*(?:CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY)[^\n]*")
_LOG_PREFIX = re.compile(r"^(?:[EWI]\d{4} [\d:.]+|\S+Z [EWI]) \d+ \S+\] \"?")
_STATUS_CODE = re.compile(r"^(?:Internal|Invalid argument|Unavailable|Not found|Unknown|Unsupported): ")
MAX_TEXT = 400


@dataclass(frozen=True)
class ModelFailure:
    """Which Triton model did not load, and Triton's own words for it."""

    model: str
    text: str


def model_failure(log: str) -> ModelFailure | None:
    """The first model that failed to load, by the most exact line there is; None where none failed."""
    for pattern in (_FAILED_POLL, _FAILED_VERSION, _FAILED_SERVER):
        found = pattern.search(log)
        if found is not None:
            detail = _PARSE.search(log) if pattern is _FAILED_POLL else None
            text = f"{found['text']} ({detail['text']})" if detail else found["text"]
            return ModelFailure(found["model"], _readable(text))
    found = _FAILED_SERVER_SHORT.search(log)
    return ModelFailure("", _readable(found["text"])) if found else None


def accelerator_memory_failure(log: str) -> str:
    """The line in which the accelerator ran out of memory; empty where none says so."""
    found = _CUDA_MEMORY.search(log)
    return _readable(_LOG_PREFIX.sub("", found.group(0).strip())) if found else ""


def _readable(text: str) -> str:
    """One line without Triton's quoting, stack positions and status code."""
    text = text.replace("\\n", "\n").split("\n\nAt:", 1)[0]
    text = " ".join(text.split()).strip('" ;')
    text = _STATUS_CODE.sub("", text)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
