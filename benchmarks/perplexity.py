"""What a KV cache in FP8 costs: perplexity of a fixed text under each type of cache."""

from __future__ import annotations

import math
from collections.abc import Sequence as Tokens
from dataclasses import replace
from pathlib import Path

import torch

from llmserving.tokenizer import TextTokenizer
from llmtorch.config import ModelConfig
from llmtorch.kv_cache import KVCache
from llmtorch.loader import choose_kv_dtype, load_model
from llmtorch.model import CausalLM
from llmtorch.options import BLOCK_SIZE, EngineOptions
from llmtorch.scheduler import Chunk
from llmtorch.sequence import Sequence
from llmtorch.step_batch import build_step

# Decisions are not rewritten, so their text stays as it is.
TEXT = Path(__file__).resolve().parent.parent / "docs" / "decisions"
PAGES = ("0003-revisions-are-pinned.md", "0004-one-source-for-the-api.md", "0006-a-dead-process-ends-its-server.md")
LENGTH = 1024
CPU = torch.device("cpu")


def perplexity_over_bfloat16(folder: Path) -> float:
    """Perplexity with an FP8 cache over that with one in bfloat16, the model in bfloat16 both times."""
    options = EngineOptions(folder, dtype="bfloat16")
    model = load_model(options, ModelConfig.load(folder), LENGTH, CPU)
    text = "\n".join((TEXT / page).read_text(encoding="utf-8") for page in PAGES)
    tokens = TextTokenizer.load(folder).encode(text)[:LENGTH]
    return perplexity(model, tokens, "fp8_e4m3") / perplexity(model, tokens, "Auto")


@torch.inference_mode()
def perplexity(model: CausalLM, tokens: Tokens[int], kv_dtype: str) -> float:
    """Exponential of the mean negative log-likelihood of all tokens but the first, read from a cache of that type."""
    blocks = -(-len(tokens) // BLOCK_SIZE)
    dtype = model.embedding.dtype
    cache = KVCache(model.config, blocks, BLOCK_SIZE, choose_kv_dtype(kv_dtype, dtype), CPU)
    sequence = Sequence(0, list(tokens), len(tokens), (0.0, 0), blocks=list(range(blocks)))
    step = build_step([Chunk(sequence, len(tokens))], BLOCK_SIZE, CPU, dtype, model.config.windows)
    logits = model.forward(replace(step, last_rows=torch.arange(len(tokens))), cache)
    loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(list(tokens[1:])))
    return math.exp(loss.item())
