"""Fields of OpenAI's API that this service does not have: refused by name, unless they ask for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llmservice.openai.errors import invalid

_NOTHING: Final[tuple[Any, ...]] = (None, [], {}, "")
_NO_TOOLS: Final = "this service calls no tools"
_TEXT_ONLY: Final = "this service answers in text only"
_STORES_NOTHING: Final = "this service stores nothing"

COMMON: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "service_tier": (("auto", "default"), "use priority to be served before others"),
}
CHAT: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    **COMMON,
    "tools": ((), _NO_TOOLS),
    "tool_choice": (("none", "auto"), _NO_TOOLS),
    "parallel_tool_calls": ((False,), _NO_TOOLS),
    "functions": ((), _NO_TOOLS),
    "function_call": (("none", "auto"), _NO_TOOLS),
    "response_format": (({"type": "text"},), "answers cannot be held to a format: ask for it in the messages"),
    "modalities": ((["text"],), _TEXT_ONLY),
    "audio": ((), _TEXT_ONLY),
    "prediction": ((), "predicted outputs are not used"),
    "web_search_options": ((), "this service searches nothing"),
    "reasoning_effort": ((), "how much the model thinks cannot be set"),
    "verbosity": ((), "how much the model says cannot be set: ask for it in the messages"),
    "store": ((False,), _STORES_NOTHING),
    "moderation": ((), "this service moderates nothing"),
}
COMPLETION: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    **COMMON,
    "suffix": ((), "the model completes to the right only"),
}
"""By field: values that change nothing, and why others are refused."""

UNUSED: Final = frozenset({"prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "metadata"})
"""Hints: they change no answer anywhere, so taking them promises nothing."""


def without_refused(body: Mapping[str, Any], refused: Mapping[str, tuple[tuple[Any, ...], str]]) -> dict[str, Any]:
    """`body` without fields that ask for nothing. Raises ApiError for one that asks for what there is not."""
    kept = {}
    for name, value in body.items():
        if name in UNUSED:
            continue
        if name not in refused:
            kept[name] = value
            continue
        neutral, why = refused[name]
        if value not in _NOTHING and value not in neutral:
            raise invalid(f"{name} is not supported: {why}", name, "unsupported_parameter")
    return kept
