"""The tokenizer inside a GGUF file -> `tokenizer.json` and `tokenizer_config.json`.

transformers' own conversion knows one pre-tokenizer for every byte-level BPE; a model trained with another one then
splits some texts differently (digits after two spaces, for SmolLM2). So the pre-tokenizer is built from the file's
`tokenizer.ggml.pre`, as llama.cpp does (src/llama-vocab.cpp, `llm_tokenizer_bpe`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from llmserving.weight_progress import ExitCode, WeightsError

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4


def _byte_level() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _digits_then_bytes() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _byte_level()])


def _split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


PRE_TOKENIZERS: dict[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    "gpt-2": _byte_level,
    "smollm": _digits_then_bytes,
    "llama-bpe": lambda: _split(LLAMA3),
    "qwen2": lambda: _split(QWEN2),
}


def write_tokenizer(source: Path, get: Callable[..., Any], folder: Path) -> None:
    """Writes both files into `folder`. `get(key, default)` reads a field of the GGUF file `source`.

    Raises `WeightsError` BAD_FORMAT when the file's kind of tokenizer is not known here.
    """
    kind = get("tokenizer.ggml.model")
    pre = get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or pre not in PRE_TOKENIZERS:
        raise WeightsError(
            ExitCode.BAD_FORMAT,
            f"{source.name} has a tokenizer of kind {kind!r} with pre-tokenizer {pre!r}; from GGUF files gpt2 with "
            f"{', '.join(PRE_TOKENIZERS)} can be read; use the model's safetensors form",
        )
    tokens: list[str] = get("tokenizer.ggml.tokens")
    types: list[int] = get("tokenizer.ggml.token_type", [TokenType.NORMAL] * len(tokens))
    tokenizer = bpe_tokenizer(tokens, types, get("tokenizer.ggml.merges", []), pre)
    first = get("tokenizer.ggml.bos_token_id")
    if get("tokenizer.ggml.add_bos_token", False) and first is not None:
        begin = tokens[int(first)]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A $B", special_tokens=[(begin, int(first))]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = tokenizer_config(tokens, get)
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def bpe_tokenizer(tokens: list[str], types: list[int], merges: list[str], pre: str) -> Tokenizer:
    """A byte-level BPE tokenizer with the file's own special tokens."""
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=pre == "llama-bpe"))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(t, special=True) for t, k in zip(tokens, types, strict=True) if k == TokenType.CONTROL]
    added = [AddedToken(t, normalized=False) for t, k in zip(tokens, types, strict=True) if k == TokenType.USER_DEFINED]
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(added)
    return tokenizer


def tokenizer_config(tokens: list[str], get: Callable[..., Any]) -> dict[str, object]:
    """`tokenizer_config.json`: class, named special tokens, chat template."""
    config: dict[str, object] = {
        # The class that takes tokenizer.json as it is; a named family would rebuild parts of it.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_bos_token": bool(get("tokenizer.ggml.add_bos_token", False)),
    }
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = get(f"tokenizer.ggml.{key}_token_id")
        if index is not None:
            config[f"{name}_token"] = tokens[int(index)]
    template = get("tokenizer.chat_template")
    if template is not None:
        config["chat_template"] = template
    length = get(f"{get('general.architecture')}.context_length")
    if length is not None:
        config["model_max_length"] = int(length)
    return config
