"""What vLLM and torch read when they are imported: set before that, and handed down to vLLM's processes."""

from __future__ import annotations

import contextlib
import locale
from collections.abc import MutableMapping

from llmvllm.options import EngineOptions


def prepare(options: EngineOptions, environment: MutableMapping[str, str]) -> None:
    """Sets variables, where the user did not, and the locale."""
    wanted = {
        # A fork of Triton's stub would share its threads' locks and its shared memory.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_COLOR": "0",
    }
    if options.arguments.get("enforce_eager", "").strip().lower() == "true":
        # Some of vLLM's functions are compiled at their first use all the same: with the first request that asks for
        # log probabilities every sequence stands still for as long as that takes, a minute on a small CPU.
        wanted["TORCH_COMPILE_DISABLE"] = "1"
    for name, value in wanted.items():
        environment.setdefault(name, value)
    if options.device.startswith("cuda:"):
        environment["CUDA_VISIBLE_DEVICES"] = options.device.removeprefix("cuda:")
    # Triton's stub starts Python without a locale, and then torch cannot read its own files, which are not all ASCII.
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
