"""Adapters and speculative decoding in vLLM's arguments, for our driver and for NVIDIA's."""

from __future__ import annotations

from typing import Any, Final

from llmservice.api.service import LLMService
from llmservice.api.vllm import Speculative, SpeculativeMethod, VllmOptions
from llmservice.repository.errors import RenderError
from llmservice.repository.images import StockVllm
from llmservice.repository.layout import Paths

_METHODS: Final = {
    SpeculativeMethod.NGRAM: "ngram",
    SpeculativeMethod.EAGLE: "eagle",
    SpeculativeMethod.EAGLE3: "eagle3",
}
"""vLLM knows a plain draft by its model alone."""


def vllm_options(service: LLMService) -> VllmOptions:
    """The options of the spec, defaults where it has none."""
    return service.spec.engine.vllm or VllmOptions()


def adapter_paths(options: VllmOptions, paths: Paths) -> dict[str, str]:
    """Folder by adapter's name, as the engine sees it."""
    return {adapter.name: _folder(adapter.path, paths) for adapter in options.adapters}


def extra_arguments(service: LLMService, backend: StockVllm, paths: Paths) -> dict[str, Any]:
    """Arguments of vLLM that `engine.vllm` asks for; empty where it asks for nothing.

    Raises RenderError for a rank that the vLLM of this image has no kernels for.
    """
    options = vllm_options(service)
    found: dict[str, Any] = {}
    if options.adapters:
        found = {
            "enable_lora": True,
            "max_lora_rank": _rank(options, backend),
            "max_loras": options.max_active_adapters,
        }
    if options.speculative is not None:
        found |= _speculative(options.speculative, backend, paths)
    return found


def _rank(options: VllmOptions, backend: StockVllm) -> int:
    """The next rank that vLLM has: it takes only some."""
    room = [rank for rank in backend.lora_ranks if rank >= options.max_adapter_rank]
    if not room:
        most = backend.lora_ranks[-1]
        raise RenderError(
            "spec.engine.vllm.maxAdapterRank",
            f"vLLM {backend.image.vllm} of image {backend.image.tag} has room for ranks up to {most}: write at most "
            f"{most}, or use a later image",
        )
    return room[0]


def _speculative(asked: Speculative, backend: StockVllm, paths: Paths) -> dict[str, Any]:
    """One object since 25.05, single arguments before; there the draft's own files say whether it is an Eagle."""
    ngram = asked.method is SpeculativeMethod.NGRAM
    model = _folder(asked.model, paths) if asked.model else ""
    if backend.speculative_config:
        chosen: dict[str, Any] = {"num_speculative_tokens": asked.tokens}
        chosen |= {"prompt_lookup_max": asked.lookup} if ngram else {"model": model}
        if asked.method in _METHODS:
            chosen["method"] = _METHODS[asked.method]
        return {"speculative_config": chosen}
    if ngram:
        return {
            "speculative_model": "[ngram]",
            "num_speculative_tokens": asked.tokens,
            "ngram_prompt_lookup_max": asked.lookup,
        }
    if asked.method is not SpeculativeMethod.DRAFT:
        raise RenderError(
            "spec.engine.vllm.speculative.method",
            f"image {backend.image.tag} takes no {asked.method.value} by name: write Ngram or Draft, or use an image "
            "of 25.05 or later",
        )
    return {"speculative_model": model, "num_speculative_tokens": asked.tokens}


def _folder(path: str, paths: Paths) -> str:
    return path if path.startswith("/") else f"{paths.model_path}/{path}"
