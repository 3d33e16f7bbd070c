"""Triton's own model configuration message, and its two written forms.

The message comes from `tritonclient`, which ships the compiled `model_config.proto` without type stubs; this module
is the one place that imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

ModelConfig: Final[Any] = model_config_pb2.ModelConfig
ModelInstanceGroup: Final[Any] = model_config_pb2.ModelInstanceGroup
ModelQueuePolicy: Final[Any] = model_config_pb2.ModelQueuePolicy
DataType: Final[Any] = model_config_pb2.DataType
DESCRIPTOR: Final[Descriptor] = model_config_pb2.ModelConfig.DESCRIPTOR

_HEADER: Final = "# Rendered by triton-llm-operator from an LLMService. Edits are lost.\n"


def to_text(config: Any) -> str:
    """The text of `config.pbtxt`: fields in the order of the proto, map keys sorted, so equal configs give equal text.

    Strings are kept as UTF-8: Triton's parser reads them as they are.
    """
    return _HEADER + text_format.MessageToString(config, as_utf8=True)


def from_text(text: str) -> Any:
    """The `ModelConfig` that `text` writes. Raises google.protobuf.text_format.ParseError with the line."""
    return text_format.Parse(text, ModelConfig())


def to_load_json(config: Any) -> str:
    """The whole of `config` as the load API's `config` parameter wants it: one line of JSON, keys sorted.

    Names are the proto's (snake_case). 64-bit integers are strings, as proto3 JSON prescribes; Triton reads the
    text with protobuf's own JSON parser (core/src/model_config_utils.cc, `JsonToModelConfig`), which takes both.
    """
    return json_format.MessageToJson(config, preserving_proto_field_name=True, indent=None, sort_keys=True)
