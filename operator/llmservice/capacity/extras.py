"""What an engine holds beside its model: room for LoRA adapters, and the model that proposes tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llmservice.api.service import LLMService
from llmservice.api.vllm import SpeculativeMethod
from llmservice.capacity.architecture import Model
from llmservice.capacity.models import find_repository
from llmservice.repository.errors import UnknownTritonVersionError
from llmservice.repository.images import stock_vllm

EAGLE3_VOCAB: Final = 32_000
"""Tokens that an Eagle 3 head proposes among (`draft_vocab_size` of the published heads for Llama 3)."""

_MODEL_LESS: Final = frozenset({SpeculativeMethod.NGRAM})


@dataclass(frozen=True)
class Extras:
    """`adapter_slots` adapters of `adapter_rank` each are in one step at most; 0 for none.

    `method` is who proposes, None for nobody, and `draft` a proposing model that stands by itself; None where its shape
    is not known or it has none. `draft_repo` is the repository that was named for its shape.
    """

    adapter_slots: int = 0
    adapter_rank: int = 0
    method: SpeculativeMethod | None = None
    draft: Model | None = None
    draft_repo: str | None = None

    @property
    def is_counted(self) -> bool:
        """Whether everything that takes memory is known."""
        return self.method is not SpeculativeMethod.DRAFT or self.draft is not None


NO_EXTRAS: Final = Extras()


def extras_of(service: LLMService, triton_version: str) -> Extras:
    """What the spec of a vLLM service asks for. An adapter's slot is as wide as the next rank that this vLLM has."""
    options = service.spec.engine.vllm
    if options is None:
        return NO_EXTRAS
    asked = options.speculative
    method = asked.method if asked and asked.method not in _MODEL_LESS else None
    draft = find_repository(asked.repo) if asked and asked.repo else None
    if not options.adapters:
        return Extras(method=method, draft=draft, draft_repo=asked.repo if asked else None)
    try:
        ranks = stock_vllm(triton_version).lora_ranks
    except UnknownTritonVersionError:
        ranks = ()
    rank = next((rank for rank in ranks if rank >= options.max_adapter_rank), options.max_adapter_rank)
    return Extras(options.max_active_adapters, rank, method, draft, asked.repo if asked else None)


def adapter_numbers(model: Model, tensor: int, layers: int) -> int:
    """Numbers of one slot of rank 1 on one of `tensor` accelerators with `layers` of the layers.

    vLLM allocates slots for every linear layer, whatever the adapters change: inputs by rank and rank by outputs. What
    splits the outputs keeps all inputs, and the other way round (vllm/lora/layers, `create_lora_weights`); embeddings
    and output layer are whole (`VocabParallelEmbeddingWithLoRA`, `LogitsProcessorWithLoRA`).
    """
    each = sum(inputs + outputs for inputs, outputs in _linear_layers(model, tensor))
    return layers * each + 2 * (model.vocab + model.hidden)


def _linear_layers(model: Model, tensor: int) -> Iterator[tuple[int, int]]:
    """(inputs, outputs) of each linear layer of one layer, on one accelerator. Experts are taken as many."""
    hidden, heads = model.hidden, model.heads // tensor
    if latent := model.latent:
        key = heads * (latent.nope + latent.rope)
        yield from ((hidden, latent.query_rank), (latent.query_rank, key)) if latent.query_rank else ((hidden, key),)
        yield hidden, latent.latent + latent.rope
        yield latent.latent, heads * (latent.nope + latent.value)
        yield heads * latent.value, hidden
    else:
        yield hidden, heads * model.head_size
        for _ in ("key", "value"):
            yield hidden, model.kv_heads_per_accelerator(tensor) * model.head_size
        yield heads * model.head_size, hidden
    count, width = (model.experts.count, model.experts.intermediate) if model.experts else (1, model.intermediate)
    for _ in range(2 if model.gated else 1):
        yield count * hidden, count * width // tensor
    yield count * width // tensor, count * hidden


def head_parameters(model: Model, method: SpeculativeMethod | None, tensor: int) -> int:
    """Parameters of the head that proposes, on one of `tensor` accelerators; 0 without one.

    An Eagle head is one layer of the model's own shape behind a layer that joins its input with the features of the
    model (Li et al., "EAGLE", 2024, section 3 and table of parameters); embeddings and output layer are the model's.
    Eagle 3 joins features of three layers, its attention sees two inputs, and its output layer is its own.
    """
    if method not in (SpeculativeMethod.EAGLE, SpeculativeMethod.EAGLE3):
        return 0
    linear, plain = model.layer_parameters(tensor, dense=True)
    if method is SpeculativeMethod.EAGLE:
        return linear + plain + 2 * model.hidden**2
    second = model.hidden * (model.heads // tensor + 2 * model.kv_heads_per_accelerator(tensor)) * model.head_size
    return linear + plain + 3 * model.hidden**2 + second + EAGLE3_VOCAB * model.hidden // tensor


def draft_kv_numbers(model: Model, extras: Extras, tensor: int) -> int:
    """Numbers that the proposing model caches for one token, over all its layers, on one accelerator."""
    if extras.draft is not None:
        return extras.draft.layers * extras.draft.kv_numbers(tensor)
    has_head = extras.method in (SpeculativeMethod.EAGLE, SpeculativeMethod.EAGLE3)
    return model.kv_numbers(tensor) if has_head else 0
