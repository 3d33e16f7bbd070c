"""Prompts of a length that is exact in tokens, for engines in whatever environment."""

from __future__ import annotations

from llmserving.tokenizer import TextTokenizer


def prompt_of(tokenizer: TextTokenizer, key: int, length: int) -> str:
    """A prompt of exactly `length` tokens that begins like no other."""
    words = [f"{key}:"]
    while (count := len(tokenizer.encode(" ".join(words)))) < length:
        words.append("one" if length - count > 1 else "two")
    return " ".join(words)
