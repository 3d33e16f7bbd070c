"""Tiny random models in Hugging Face form, and a driver that runs an engine to the end."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from llmserving.engine import FinishReason, Output, Request, SamplingParameters
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions

END = 256
VOCABULARY = 258
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}>{% endif %}"
)
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.4,  # wide, so that two tokens are hardly ever equally likely
    "bos_token_id": None,
    "eos_token_id": END,
    "pad_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def make_model(family: str) -> PreTrainedModel:
    """A random model of the family; the same one every time."""
    torch.manual_seed(7)
    match family:
        case "llama":
            return LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True))
        case "llama3":
            return LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, rope_parameters=LLAMA3_ROPE))
        case "mistral":
            return MistralForCausalLM(MistralConfig(**SIZES, head_dim=16, sliding_window=None))
        case "mistral-window":
            return MistralForCausalLM(MistralConfig(**SIZES, head_dim=16, sliding_window=9))
        case "qwen2":
            return Qwen2ForCausalLM(Qwen2Config(**SIZES))
        case "qwen2-window":
            window: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 10, "max_window_layers": 1}
            return Qwen2ForCausalLM(Qwen2Config(**SIZES, **window))
        case "qwen3":
            return Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=12))
    raise ValueError(family)


def byte_tokenizer() -> Tokenizer:
    """One token a byte, and two special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True), AddedToken("<start>", special=True)])
    return tokenizer


def write_tokenizer(folder: Path) -> None:
    """The byte tokenizer with a chat template."""
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


@dataclass
class Answer:
    """All that an engine said about one request."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    last: Output | None = None

    @property
    def reason(self) -> FinishReason | None:
        return None if self.last is None else self.last.finish_reason


def collect(outputs: Iterable[Output], answers: dict[int, Answer]) -> None:
    for output in outputs:
        answer = answers[output.key]
        assert answer.last is None, "nothing may follow the last output"
        answer.text += output.text
        answer.pieces.append(output.text)
        answer.tokens.extend(output.token_ids)
        if output.finish_reason is not None:
            answer.last = output


def run(engine: TorchEngine, *requests: Request) -> dict[int, Answer]:
    """Adds the requests and steps until the engine has nothing left to do."""
    answers: dict[int, Answer] = defaultdict(Answer)
    for request in requests:
        engine.add(request)
    while engine.has_work():
        collect(engine.step(), answers)
    return answers


def greedy(key: int, prompt: str, max_tokens: int = 12, **more: object) -> Request:
    sampling = SamplingParameters(max_tokens=max_tokens, temperature=0.0, **more)  # type: ignore[arg-type]
    return Request(key, prompt=prompt, sampling=sampling)


def engine_on(folder: Path, **options: object) -> TorchEngine:
    """An engine in float32 on one thread, with a small cache unless told otherwise; `clock` is no engine option."""
    clock: Any = options.pop("clock", time.monotonic)
    small: dict[str, object] = {"cache_blocks": 64, "block_size": 4, "threads": 1, "device": "cpu", "dtype": "float32"}
    return TorchEngine(EngineOptions(folder, **(small | options)), clock)  # type: ignore[arg-type]
