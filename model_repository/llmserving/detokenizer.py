"""Tokens back to text, one by one as an answer grows: never half a character, and each at the same cost."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from typing import Any, Final, Protocol

from tokenizers import Tokenizer, pre_tokenizers

REPLACEMENT: Final = "\ufffd"
SPACE: Final = "\u2581"
"""What sentencepiece writes for a space."""
LONGEST_WAIT: Final = 8
"""Tokens that text may wait for: a character has four bytes, so more would never complete it."""
CONTEXT: Final = 8
"""Tokens of a prompt that may matter for the text behind it."""


class Detokenizer(Protocol):
    """The text of one answer."""

    def push(self, token: int) -> str:
        """Takes one token; returns the new text, often empty."""

    def flush(self) -> str:
        """Text that still waited when the answer ended, without its unfinished last character."""


class TokenBytes(dict[int, bytes]):
    """The bytes of each token by itself, looked up when first asked for; special and unknown tokens have none.

    For tokenizers whose text is the bytes of its tokens laid end to end: byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM2)
    and sentencepiece with byte fallback (Llama 2, Mistral, Gemma). `strips`: the first space of a text is left out.
    """

    def __init__(self, tokenizer: Tokenizer, special: frozenset[str], *, strips: bool, byte_level: bool) -> None:
        super().__init__()
        self.strips = strips
        self._tokenizer = tokenizer
        self._special = special
        self._bytes = _letters() if byte_level else None

    @classmethod
    def of(cls, tokenizer: Tokenizer, special: frozenset[str]) -> TokenBytes | None:
        """Those of a tokenizer; None for one that puts its text together in another way."""
        steps = _steps(tokenizer)
        if [step["type"] for step in steps] == ["ByteLevel"]:
            return cls(tokenizer, special, strips=False, byte_level=True)
        strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
        pieces = [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ]
        if steps not in (pieces, [*pieces, strip]):
            return None
        return cls(tokenizer, special, strips=strip in steps, byte_level=False)

    def __missing__(self, token: int) -> bytes:
        found = self[token] = self._look_up(self._tokenizer.id_to_token(token))
        return found

    def _look_up(self, name: str | None) -> bytes:
        if name is None or name in self._special:
            return b""
        if self._bytes is None:
            return _byte(name) or name.replace(SPACE, " ").encode()
        letters = [self._bytes.get(letter) for letter in name]
        return name.encode() if None in letters else bytes(letter for letter in letters if letter is not None)


class ByteDetokenizer:
    """By the bytes of tokens. `before` are the tokens of the text that the answer goes on with, if it does."""

    def __init__(self, table: TokenBytes, before: Sequence[int] = ()) -> None:
        self._table = table
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._begins = table.strips and not any(table[token] for token in before)

    def push(self, token: int) -> str:
        """See `Detokenizer`."""
        found = self._table[token]
        if self._begins and found:
            self._begins = False
            found = found.removeprefix(b" ")
        return self._decode(found)

    def flush(self) -> str:
        """See `Detokenizer`. Only what may become a character ever waits."""
        return ""


class WindowDetokenizer:
    """By any decoder in which a token's text depends on few tokens before it.

    Each time a short window is decoded twice, with and without the new tokens; the difference is what is new. One that
    ends in U+FFFD may end within a character: it waits. The `DecodeStream` of tokenizers does the same, but keeps what
    it holds back to itself when an answer ends, and raises where later tokens change earlier text.
    """

    def __init__(self, tokenizer: Tokenizer, special: frozenset[str], before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._ids = list(before[-CONTEXT:])
        self._shown = len(self._ids)

    def push(self, token: int) -> str:
        """See `Detokenizer`."""
        name = self._tokenizer.id_to_token(token)
        if name is None or name in self._special:
            return ""  # it has no text, wherever it stands
        self._ids.append(token)
        text = self._new_text()
        waits = not text or text.endswith(REPLACEMENT)
        if waits and len(self._ids) - self._shown < LONGEST_WAIT:
            return ""
        self._move()
        return text

    def flush(self) -> str:
        """See `Detokenizer`."""
        text = self._new_text().rstrip(REPLACEMENT)
        self._move()
        return text

    def _move(self) -> None:
        """The tokens whose text is shown now are the context of the next ones."""
        del self._ids[: self._shown]
        self._shown = len(self._ids)

    def _new_text(self) -> str:
        known = self._tokenizer.decode(self._ids[: self._shown], skip_special_tokens=True)
        return str(self._tokenizer.decode(self._ids, skip_special_tokens=True))[len(known) :]


def special_tokens(tokenizer: Tokenizer) -> frozenset[str]:
    """Tokens that have no text."""
    return frozenset(added.content for added in tokenizer.get_added_tokens_decoder().values() if added.special)


def _steps(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The tokenizer's decoder, step by step; empty where it has none."""
    if tokenizer.decoder is None:
        return []
    told: dict[str, Any] = json.loads(tokenizer.decoder.__getstate__())
    return list(told["decoders"]) if told["type"] == "Sequence" else [told]


def _letters() -> dict[str, int]:
    """The byte behind each letter of byte-level BPE: printable bytes are themselves, others follow from U+0100 on.

    The rule is that of GPT-2 (`bytes_to_unicode` of its encoder.py).
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    printable = {letter: ord(letter) for letter in alphabet if ord(letter) < 256}
    others = sorted(set(range(256)) - set(printable.values()))
    return printable | {letter: others[ord(letter) - 256] for letter in alphabet if letter not in printable}


def _byte(name: str) -> bytes | None:
    """The byte that a token such as `<0xE2>` stands for."""
    if len(name) != 6 or not name.startswith("<0x") or not name.endswith(">"):
        return None
    try:
        return bytes([int(name[3:5], 16)])
    except ValueError:
        return None
