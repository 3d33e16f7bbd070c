"""The fields that both kinds of request have, and how a wrong one is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from llmservice.openai.errors import ApiError, invalid

MOST_TOKENS: Final = 1_048_576
MOST_CHOICES: Final = 128
MOST_STOPS: Final = 64
MOST_BIASES: Final = 1024
MOST_LOGPROBS: Final = 20
LOWEST_LEVEL: Final = 16
LONGEST_SECONDS: Final = 86_400.0
LONGEST_NAME: Final = 256

Count = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
Stop = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]


class StreamOptions(BaseModel):
    """How a stream is told."""

    model_config = ConfigDict(strict=True, extra="forbid")

    include_usage: bool | None = None
    include_obfuscation: Annotated[bool | None, Field(description="Padding against eavesdroppers: never sent.")] = None


class CommonFields(BaseModel):
    """What chat and completion have in common. The last group are extensions, named as in vLLM's server."""

    model_config = ConfigDict(strict=True, extra="forbid")

    model: Annotated[str, Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    n: Annotated[int | None, Field(ge=1, le=MOST_CHOICES)] = None
    seed: Annotated[int | None, Field(ge=-(2**63), lt=2**63)] = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]] | None, Field(max_length=MOST_BIASES)] = (
        None
    )
    stop: Annotated[list[Stop] | None, Field(max_length=MOST_STOPS)] = None
    user: Name | None = None
    safety_identifier: Name | None = None

    priority: Annotated[int | None, Field(ge=1, le=LOWEST_LEVEL)] = None
    timeout: Annotated[float | None, Field(gt=0, le=LONGEST_SECONDS)] = None
    top_k: Annotated[int | None, Field(ge=-1, lt=2**31)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    min_tokens: Annotated[int | None, Field(ge=0, le=MOST_TOKENS)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=100)] = None
    stop_token_ids: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]] | None, Field(max_length=MOST_STOPS)] = None
    ignore_eos: bool | None = None

    @property
    def who(self) -> str:
        """Who asks, by OpenAI's new name of the field or its old one; empty where neither says."""
        return self.safety_identifier or self.user or ""

    def sampling(self) -> dict[str, Any]:
        """The gate's sampling parameters of what was said; what was not keeps the gate's defaults."""
        said = {name: value for name in _SAME if (value := getattr(self, name)) not in _UNSAID}
        if self.top_k is not None:
            said["top_k"] = max(0, self.top_k)  # -1 is how some clients write "off"
        if self.seed is not None:
            said["seed"] = self.seed % 2**63
        if self.n is not None and self.n > 1:
            said["n"] = self.n
        return said


_SAME: Final = (
    "max_tokens",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "stop",
    "min_p",
    "min_tokens",
    "repetition_penalty",
    "stop_token_ids",
    "ignore_eos",
)

_UNSAID: Final[tuple[Any, ...]] = (None, [], {})
Fields = TypeVar("Fields", bound=CommonFields)


def read_json(raw: bytes) -> dict[str, Any]:
    """The object in a request's body. Raises ApiError."""
    try:
        body = json.loads(raw)
        if b"\\u" in raw:  # only an escape can spell half a character, which nothing could encode
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeError as error:
        raise invalid(f"the body is not UTF-8, or holds half of a surrogate pair: {error}") from None
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise invalid("the body must be a JSON object")
    return body


def read_fields(kind: type[Fields], body: Mapping[str, Any]) -> Fields:
    """`body` as typed fields. Raises ApiError that names the first field at fault."""
    stop = body.get("stop")
    given = {**body, "stop": [stop]} if isinstance(stop, str) else body
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _told(error.errors()[0]) from None


def _told(detail: ErrorDetails) -> ApiError:
    first, *rest = detail["loc"] or ("body",)
    param = str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)
    if detail["type"] == "extra_forbidden":
        return invalid(f"{param}: this service knows no such field: remove it", param, "unknown_parameter")
    if detail["type"] == "missing":
        return invalid(f"{param}: is missing", param, "missing_required_parameter")
    said = detail["msg"][0].lower() + detail["msg"][1:]
    return invalid(f"{param}: {said}", param, "invalid_value")
