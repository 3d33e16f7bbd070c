"""Where each validation rule of Triton's own (V1 to V25, core/src/model_config_utils.cc) is held.

The spec cannot say everything that a `config.pbtxt` can. What it can say and Triton would refuse is refused at
admission; what only the renderer writes, its tests hold.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Held(NamedTuple):
    """What Triton demands, and how it is held: by rules (their codes), by the schema, or by the renderer."""

    demand: str
    by: str
    codes: tuple[str, ...] = ()


TRITON_RULES: Final[dict[str, Held]] = {
    "V1": Held("a model has a name that is also its folder's", "CEL", ("V1-name", "V1-served-name")),
    "V2": Held("backend and platform are known and agree", "schema: engine.backend is an enumeration"),
    "V3": Held("max_batch_size is not negative", "schema: minimum of batching.maxSequences"),
    "V4": Held("a version policy finds a version", "renderer: always the default policy and version 1"),
    "V5": Held("preferred sizes are positive", "schema: minimum of batching.preferredBatchSizes"),
    "V6": Held("preferred sizes are at most max_batch_size", "CEL", ("V6-preferred-size",)),
    "V7": Held("priorities need a default level in range", "CEL", ("V7-default-level", "V7-default-range")),
    "V8": Held("queue policies name levels in range", "CEL", ("V8-queue-level-range",)),
    "V9": Held("preserve_ordering allows one level", "CEL", ("V9-preserve-ordering",)),
    "V10": Held("preserve_ordering allows no DELAY on timeout", "renderer: the action is always REJECT"),
    "V11": Held("no response cache with sequence batching", "renderer: neither is rendered"),
    "V12": Held("no response cache with decoupled models", "renderer: no response cache is rendered"),
    "V13": Held("preferred sizes of sequence batching", "renderer: no sequence batching is rendered"),
    "V14": Held("minimum slot utilization in (0, 1]", "renderer: no sequence batching is rendered"),
    "V15": Held("sequence controls are complete", "renderer: no sequence batching is rendered"),
    "V16": Held("sequence state and batch strategy", "renderer: no sequence batching is rendered"),
    "V17": Held("instance groups match their GPUs", "renderer: kinds and counts are its own"),
    "V18": Held("rate limiter resources are consistent", "renderer: no rate limiter is rendered"),
    "V19": Held("ensembles are connected", "renderer: no ensemble is rendered"),
    "V20": Held("inputs and outputs are complete", "renderer: the gate's tensors are fixed"),
    "V21": Held("batch inputs and outputs are complete", "renderer: none are rendered"),
    "V22": Held("metric controls have buckets", "renderer: none are rendered"),
    "V23": Held("warm-up has concrete shapes", "renderer: no warm-up is rendered"),
    "V24": Held("numbers fit their types", "schema: minimum and maximum of every number"),
    "V25": Held("vLLM is decoupled, and KIND_MODEL across GPUs", "renderer: always decoupled"),
}
