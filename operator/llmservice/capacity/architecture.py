"""The shape of a model, and what follows from it: parameters by place, bytes of keys and values."""

from __future__ import annotations

from dataclasses import dataclass

from llmservice.api.model import Dtype
from llmservice.capacity.quantization import Quantization


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: `per_token` of `count` run, each `intermediate` wide; `shared` is what always runs."""

    count: int
    per_token: int
    intermediate: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: one vector of `latent + rope` numbers is cached for all heads.

    DeepSeek-V2 (2024), section 2.1. `query_rank` 0: queries are not compressed.
    """

    latent: int
    rope: int
    nope: int
    value: int
    query_rank: int = 0


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer. Sizes are counts of numbers; `kv_heads` of grouped-query attention.

    `sliding_layers` of the layers see only the last `sliding_window` tokens. `stated_parameters` is what the files
    say in all, with shared embeddings counted once; None where only the shape is known.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    vocab: int
    max_length: int
    tied: bool = False
    qkv_bias: bool = False
    gated: bool = True
    dtype: Dtype = Dtype.BFLOAT16
    quantization: Quantization = Quantization.NONE
    sliding_window: int = 0
    sliding_layers: int = 0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    stated_parameters: int | None = None

    @property
    def parameters(self) -> int:
        """All parameters: as stated, else by the shape."""
        return self.stated_parameters or self.shaped_parameters

    @property
    def shaped_parameters(self) -> int:
        """Parameters that the shape gives: embeddings, layers and the last norm."""
        linear, plain = self.layer_parameters(tensor=1)
        dense = self.experts.dense_layers if self.experts else 0
        sparse_linear, sparse_plain = (self.layers - dense) * linear, self.layers * plain
        dense_linear = dense * self._linear(1, sparse=False)
        return self.embedding_parameters + sparse_linear + dense_linear + sparse_plain + self.hidden

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embeddings and of the output layer, which may be the same."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def unshaped_parameters(self) -> int:
        """Stated parameters that the shape does not explain, such as a vision tower."""
        return max(0, self.parameters - self.shaped_parameters)

    def layer_parameters(self, tensor: int, *, dense: bool = False) -> tuple[int, int]:
        """(parameters of linear layers, others) of one layer on one of `tensor` accelerators.

        KV heads are repeated where there are more accelerators than heads; routers and norms are on each.
        """
        sparse = self.experts is not None and not dense
        router = self.experts.count * self.hidden if self.experts and sparse else 0
        bias = (self.heads + 2 * self.kv_heads) * self.head_size // tensor if self.qkv_bias else 0
        return self._linear(tensor, sparse=sparse), 2 * self.hidden + router + bias

    def kv_heads_per_accelerator(self, tensor: int) -> int:
        """KV heads that each of `tensor` accelerators stores; below one head each, heads are repeated."""
        return -(-self.kv_heads // tensor)

    def kv_numbers(self, tensor: int) -> int:
        """Cached numbers of one token in one layer on one accelerator.

        `2 · kv_heads · head_size`: a key and a value per head (Kwon et al., "PagedAttention", 2023, section 3; Ainslie
        et al., "GQA", 2023). Latent attention caches one vector, whole on each accelerator (DeepSeek-V2, table 1).
        """
        if self.latent:
            return self.latent.latent + self.latent.rope
        return 2 * self.kv_heads_per_accelerator(tensor) * self.head_size

    def kv_vectors(self, tensor: int) -> int:
        """Keys and values of one token in one layer on one accelerator, counted one a head."""
        return 1 if self.latent else 2 * self.kv_heads_per_accelerator(tensor)

    def cached_layer_tokens(self, length: int, layers: int) -> int:
        """Tokens times layers that one sequence of `length` keeps in `layers` of the model's layers.

        A layer with a sliding window keeps its window only. Where a pipeline splits the layers, each stage is taken
        to have its share of the windows.
        """
        sliding = layers * self.sliding_layers // self.layers if self.sliding_window else 0
        return (layers - sliding) * length + sliding * min(length, self.sliding_window)

    def _linear(self, tensor: int, *, sparse: bool) -> int:
        return self._attention(tensor) + self._feed_forward(sparse=sparse) // tensor

    def _attention(self, tensor: int) -> int:
        if self.latent:
            return self._latent_attention(self.latent, tensor)
        heads = self.heads * self.head_size * self.hidden // tensor
        return 2 * heads + 2 * self.kv_heads_per_accelerator(tensor) * self.head_size * self.hidden

    def _latent_attention(self, latent: LatentAttention, tensor: int) -> int:
        """The two compressing projections are whole on each accelerator, the rest is split by heads."""
        key = latent.nope + latent.rope
        queries = self.heads * key // tensor
        query = latent.query_rank * (self.hidden + queries) if latent.query_rank else self.hidden * queries
        compress = self.hidden * (latent.latent + latent.rope)
        expand = latent.latent * self.heads * (latent.nope + latent.value) // tensor
        return query + compress + expand + self.heads * latent.value * self.hidden // tensor

    def _feed_forward(self, *, sparse: bool) -> int:
        matrices = 3 if self.gated else 2
        if not (sparse and self.experts):
            return matrices * self.hidden * self.intermediate
        experts = self.experts
        return matrices * self.hidden * (experts.count * experts.intermediate + experts.shared)
