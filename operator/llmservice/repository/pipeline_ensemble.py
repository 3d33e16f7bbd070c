"""The ensemble that chains preprocessing, engine and postprocessing, for text."""

from __future__ import annotations

from typing import Any, Final

from llmservice.repository.layout import POSTPROCESSING, PREPROCESSING, engine_name, gate_name
from llmservice.repository.proto import DataType, ModelConfig

RENAMED_AT: Final = "25.05"
"""From this image on the engine calls `min_length` and `random_seed` as clients do."""

_REQUIRED: Final = ("text_input", "max_tokens")
_TO_PREPROCESSING: Final = {
    # ensemble's input: (preprocessing's, type, dims)
    "text_input": ("QUERY", "TYPE_STRING", [1]),
    "max_tokens": ("REQUEST_OUTPUT_LEN", "TYPE_INT32", [1]),
    "bad_words": ("BAD_WORDS_DICT", "TYPE_STRING", [-1]),
    "stop_words": ("STOP_WORDS_DICT", "TYPE_STRING", [-1]),
    "end_id": ("END_ID", "TYPE_INT32", [1]),
    "pad_id": ("PAD_ID", "TYPE_INT32", [1]),
    "embedding_bias_words": ("EMBEDDING_BIAS_WORDS", "TYPE_STRING", [-1]),
    "embedding_bias_weights": ("EMBEDDING_BIAS_WEIGHTS", "TYPE_FP32", [-1]),
}
_TO_ENGINE: Final = {
    "top_k": ("runtime_top_k", "TYPE_INT32", [1]),
    "top_p": ("runtime_top_p", "TYPE_FP32", [1]),
    "temperature": ("temperature", "TYPE_FP32", [1]),
    "length_penalty": ("len_penalty", "TYPE_FP32", [1]),
    "repetition_penalty": ("repetition_penalty", "TYPE_FP32", [1]),
    "presence_penalty": ("presence_penalty", "TYPE_FP32", [1]),
    "frequency_penalty": ("frequency_penalty", "TYPE_FP32", [1]),
    "return_log_probs": ("return_log_probs", "TYPE_BOOL", [1]),
    "beam_width": ("beam_width", "TYPE_INT32", [1]),
    "stream": ("streaming", "TYPE_BOOL", [1]),
    "lora_task_id": ("lora_task_id", "TYPE_UINT64", [1]),
    "lora_weights": ("lora_weights", "TYPE_FP16", [-1, -1]),
    "lora_config": ("lora_config", "TYPE_INT32", [-1, 3]),
}
_BETWEEN: Final = {
    # preprocessing's output: (tensor between, engine's input)
    "INPUT_ID": ("_INPUT_ID", "input_ids"),
    "REQUEST_INPUT_LEN": ("_REQUEST_INPUT_LEN", "input_lengths"),
    "REQUEST_OUTPUT_LEN": ("_REQUEST_OUTPUT_LEN", "request_output_len"),
    "STOP_WORDS_IDS": ("_STOP_WORDS_IDS", "stop_words_list"),
    "BAD_WORDS_IDS": ("_BAD_WORDS_IDS", "bad_words_list"),
    "EMBEDDING_BIAS": ("_EMBEDDING_BIAS", "embedding_bias"),
    "OUT_END_ID": ("_END_ID", "end_id"),
    "OUT_PAD_ID": ("_PAD_ID", "pad_id"),
}
_FROM_ENGINE: Final = {"cum_log_probs": [-1], "output_log_probs": [-1, -1]}


def ensemble_config(service: str, tag: str, batch: int) -> Any:
    """The `ModelConfig` that clients of `service` call, for the image with `tag`.

    Triton makes an ensemble decoupled when a step is, so it is written that way. What only encoder-decoder and vision
    models need is not in it; `chain: BLS` has those tensors.
    """
    config = ModelConfig(name=gate_name(service), platform="ensemble", max_batch_size=batch)
    config.model_transaction_policy.decoupled = True
    seeded = _seeded(tag)
    ragged = {"lora_weights", "lora_config"}
    for name, (_, data_type, dims) in (_TO_PREPROCESSING | _TO_ENGINE | seeded).items():
        config.input.add(
            name=name,
            data_type=DataType.Value(data_type),
            dims=dims,
            optional=name not in _REQUIRED,
            allow_ragged_batch=name in ragged,
        )
    config.output.add(name="text_output", data_type=DataType.Value("TYPE_STRING"), dims=[-1])
    for name, dims in _FROM_ENGINE.items():
        config.output.add(name=name, data_type=DataType.Value("TYPE_FP32"), dims=dims)
    first, second, third = (config.ensemble_scheduling.step.add(model_version=-1) for _ in range(3))
    first.model_name, second.model_name, third.model_name = PREPROCESSING, engine_name(service), POSTPROCESSING
    for name, (target, _, _) in _TO_PREPROCESSING.items():
        first.input_map[target] = name
    for source, (between, target) in _BETWEEN.items():
        first.output_map[source] = between
        second.input_map[target] = between
    for name, (target, _, _) in (_TO_ENGINE | seeded).items():
        second.input_map[target] = name
    for name in _FROM_ENGINE:
        second.output_map[name] = name
    second.output_map["output_ids"] = third.input_map["TOKENS_BATCH"] = "_TOKENS"
    second.output_map["sequence_length"] = third.input_map["SEQUENCE_LENGTH"] = "_LENGTHS"
    third.output_map["OUTPUT"] = "text_output"
    return config


def _seeded(tag: str) -> dict[str, tuple[str, str, list[int]]]:
    """Clients write `seed` and `min_tokens` whatever the image; the engine's names are its image's."""
    later = tag >= RENAMED_AT
    return {
        "seed": ("seed" if later else "random_seed", "TYPE_UINT64", [1]),
        "min_tokens": ("min_tokens" if later else "min_length", "TYPE_INT32", [1]),
    }
