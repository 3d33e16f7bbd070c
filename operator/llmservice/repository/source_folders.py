"""Which folders of the model's source a service needs beside the model itself, which lies in the top one. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath

from llmservice.api.service import LLMService
from llmservice.repository.errors import RenderError
from llmservice.repository.topology import runs_engine
from llmservice.repository.vllm_extras import vllm_options


def source_folders(service: LLMService) -> tuple[str, ...]:
    """Adapters, a proposing model, and the tokenizer of a built engine: folders below the top of the source, sorted.

    Raises RenderError where the source is one GGUF file, which has none.
    """
    options, tokenizer = vllm_options(service), service.spec.model.tokenizer
    named = [adapter.path for adapter in options.adapters]
    if options.speculative is not None and options.speculative.model:
        named.append(options.speculative.model)
    if runs_engine(service) and tokenizer is not None and tokenizer.path:
        named.append(tokenizer.path)
    folders = tuple(sorted({str(PurePosixPath(path)) for path in named if not path.startswith("/")} - {"."}))
    if folders and service.spec.model.source.is_converted:
        raise RenderError(
            "spec.model.source.huggingFace.file",
            f"a GGUF file brings no folders, and {folders[0]} is asked for: write an absolute path on a volume of "
            "spec.template.volumes, or take the safetensors files",
        )
    return folders
