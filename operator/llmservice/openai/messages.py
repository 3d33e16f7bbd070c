"""A conversation in OpenAI's form -> the roles and texts that a chat template takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llmservice.openai.errors import ApiError, invalid

ROLES: Final = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""By the role a client says, the one the template gets. `developer` is OpenAI's later name of `system`; chat templates
know the latter."""

_TOOLS: Final = "this service calls no tools"
_REFUSED: Final = {
    "tool_calls": _TOOLS,
    "function_call": _TOOLS,
    "tool_call_id": _TOOLS,
    "name": "chat templates know no names: put it into the content",
    "audio": "this service answers in text only",
}
_UNUSED: Final = frozenset({"refusal", "annotations", "reasoning_content"})
"""What an answer carries and clients send back with it."""


def read_messages(messages: Any) -> tuple[Mapping[str, str], ...]:
    """The conversation. Raises ApiError that names the message and field at fault."""
    if not isinstance(messages, list) or not messages:
        raise invalid(
            'messages: must be a list such as [{"role": "user", "content": "Hi"}]', "messages", "invalid_value"
        )
    return tuple(_message(f"messages[{index}]", message) for index, message in enumerate(messages))


def _message(path: str, message: Any) -> Mapping[str, str]:
    if not isinstance(message, dict):
        raise _wrong(path, 'must be an object such as {"role": "user", "content": "Hi"}')
    for name, value in message.items():
        if name in {"role", "content"} or name in _UNUSED or value in (None, [], {}):
            continue
        if name not in _REFUSED:
            raise invalid(f"{path}.{name}: there is no such field: remove it", f"{path}.{name}", "unknown_parameter")
        raise _unsupported(f"{path}.{name}", _REFUSED[name])
    role = message.get("role")
    if role in ("tool", "function"):
        raise _unsupported(f"{path}.role", _TOOLS)
    if not isinstance(role, str) or role not in ROLES:
        raise _wrong(f"{path}.role", f"must be one of {', '.join(ROLES)}")
    return {"role": ROLES[role], "content": _content(f"{path}.content", message.get("content"))}


def _content(path: str, content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise _wrong(path, "must be a string or a list of text parts")
    return "".join(_part(f"{path}[{index}]", part) for index, part in enumerate(content))


def _part(path: str, part: Any) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise _wrong(path, 'must be an object such as {"type": "text", "text": "Hi"}')
    if kind != "text":
        raise _unsupported(f"{path}.type", f"the model reads text only, not {kind}")
    if not isinstance(part.get("text"), str):
        raise _wrong(f"{path}.text", "must be a string")
    return str(part["text"])


def _wrong(path: str, what: str) -> ApiError:
    return invalid(f"{path}: {what}", path, "invalid_value")


def _unsupported(path: str, why: str) -> ApiError:
    return invalid(f"{path} is not supported: {why}", path, "unsupported_parameter")
