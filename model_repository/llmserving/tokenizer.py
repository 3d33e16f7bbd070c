"""Text to tokens and, token by token, back to text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from llmserving.chat import ChatTemplate

REPLACEMENT = "\ufffd"


class Decoder(Protocol):
    """The part of a tokenizer that turns tokens into text; special tokens have none."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`."""


class TextTokenizer:
    """The tokenizer of a Hugging Face folder with its chat template."""

    def __init__(self, tokenizer: Tokenizer, chat: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self.chat = chat

    @classmethod
    def load(cls, folder: Path, chat_template: str | None = None) -> TextTokenizer:
        """Reads `folder`. Without a `tokenizer.json`, transformers converts what there is (slow to import)."""
        if (folder / "tokenizer.json").is_file():
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        else:
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(tokenizer, ChatTemplate.load(folder, chat_template))

    def encode(self, prompt: str) -> list[int]:
        """Tokens of a raw prompt, with what the model wants around it (a first token, for some)."""
        return list(self._tokenizer.encode(prompt).ids)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Tokens of a conversation, ready for the answer. Raises `ValueError` when the template refuses it."""
        return list(self._tokenizer.encode(self.chat.render(messages), add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids` without special tokens."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))

    def token_text(self, token: int) -> str:
        """Text of one token by itself, a special one's name too."""
        return str(self._tokenizer.decode([token], skip_special_tokens=False))

    def token_id(self, token: str) -> int | None:
        """The number of a token, None when there is no such token."""
        found = self._tokenizer.token_to_id(token)
        return None if found is None else int(found)


class Detokenizer:
    """Text of a growing list of tokens, never half a character.

    A token's text depends on its neighbours, so each time a short window is decoded twice, with and without the new
    tokens, and the difference is what is new. A window that ends in U+FFFD ends within a character: it waits.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._ids: list[int] = []
        self._window = 0
        self._shown = 0

    def push(self, token: int) -> str:
        """Takes one token; returns the new text, often empty."""
        self._ids.append(token)
        text = self._new_text()
        if not text or text.endswith(REPLACEMENT):
            return ""
        self._window, self._shown = self._shown, len(self._ids)
        return text

    def flush(self) -> str:
        """Text that still waited when the answer ended, without its unfinished last character."""
        text = self._new_text().rstrip(REPLACEMENT)
        self._window, self._shown = self._shown, len(self._ids)
        return text

    def _new_text(self) -> str:
        known = self._decoder.decode(self._ids[self._window : self._shown])
        return self._decoder.decode(self._ids[self._window :])[len(known) :]


def end_tokens(folder: Path, tokenizer: TextTokenizer) -> frozenset[int]:
    """Tokens that end an answer: those of `generation_config.json`, `config.json` and the tokenizer."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.is_file():
            value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            found.update([value] if isinstance(value, int) else value or [])
    eos = tokenizer.chat.special_tokens.get("eos_token")
    if eos is not None and (index := tokenizer.token_id(eos)) is not None:
        found.add(index)
    return frozenset(found)
