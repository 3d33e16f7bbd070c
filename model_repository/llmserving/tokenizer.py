"""Text to tokens and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from llmserving.chat import ChatTemplate
from llmserving.detokenizer import ByteDetokenizer, Detokenizer, TokenBytes, WindowDetokenizer, special_tokens


class TextTokenizer:
    """The tokenizer of a Hugging Face folder with its chat template."""

    def __init__(self, tokenizer: Tokenizer, chat: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._special = special_tokens(tokenizer)
        self._bytes = TokenBytes.of(tokenizer, self._special)
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

    def detokenizer(self, before: Sequence[int] = ()) -> Detokenizer:
        """For the text of one answer, token by token: what `decode` says of all of them, whole characters at a time.

        Bytes that are no character are replaced once each broken part, where `decode` may replace their neighbours too.

        `before` are the tokens of the text that it goes on with: its first word then keeps the space before it.
        """
        if self._bytes is not None:
            return ByteDetokenizer(self._bytes, before)
        return WindowDetokenizer(self._tokenizer, self._special, before)

    def token_text(self, token: int) -> str:
        """Text of one token by itself, a special one's name too."""
        return str(self._tokenizer.decode([token], skip_special_tokens=False))

    def token_id(self, token: str) -> int | None:
        """The number of a token, None when there is no such token."""
        found = self._tokenizer.token_to_id(token)
        return None if found is None else int(found)


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
