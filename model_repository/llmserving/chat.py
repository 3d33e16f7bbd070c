"""A conversation -> the prompt its model was trained on, by the model's own Jinja template.

The environment is the one templates are written for: https://huggingface.co/docs/transformers/chat_templating_writing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


class ChatTemplate:
    """Renders messages. `source` None is a model without a template: then messages are refused."""

    def __init__(self, source: str | None, special_tokens: Mapping[str, str]) -> None:
        self.special_tokens = dict(special_tokens)
        self._template = None if source is None else _environment().from_string(source)

    @classmethod
    def load(cls, folder: Path, override: str | None = None) -> ChatTemplate:
        """The template of `folder` (`chat_template.jinja`, else `tokenizer_config.json`), or the one in its place."""
        path = folder / "tokenizer_config.json"
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        names = ("bos_token", "eos_token", "unk_token", "pad_token")
        special = {name: _content(config[name]) for name in names if config.get(name) is not None}
        template = override or config.get("chat_template")
        if override is None and (folder / "chat_template.jinja").is_file():
            template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
        if isinstance(template, list):
            template = next((entry["template"] for entry in template if entry["name"] == "default"), None)
        return cls(template, special)

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The prompt up to where the answer begins. Raises `ValueError` with the template's own reason."""
        if self._template is None:
            raise ValueError("the model has no chat template: send text_input or set spec.model.tokenizer.chatTemplate")
        if not messages:
            raise ValueError("messages is empty: send at least one {role, content}")
        for index, message in enumerate(messages):
            if not {"role", "content"} <= message.keys():
                raise ValueError(
                    f"messages[{index}] must have role and content, and has {', '.join(message) or 'neither'}"
                )
        try:
            return self._template.render(
                messages=list(messages), add_generation_prompt=True, tools=None, documents=None, **self.special_tokens
            )
        except (jinja2.TemplateError, TypeError, KeyError) as error:
            raise ValueError(f"the chat template refuses these messages: {error}") from error


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(form)
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    return environment


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _content(token: Any) -> str:
    return str(token["content"] if isinstance(token, dict) else token)
