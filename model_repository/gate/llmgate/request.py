"""What a client sent -> an engine's `Request`, or an error that names the field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from llmserving.engine import SamplingParameters

MAX_TOKENS_LIMIT: Final = 1_048_576
MAX_STOPS: Final = 64
MAX_BIASES: Final = 1024
MAX_ANSWERS: Final = 128
MAX_LOGPROBS: Final = 20
DAY_MS: Final = 86_400_000
MAX_LEVEL: Final = 16
MAX_CLIENT: Final = 256
MAX_ADAPTER: Final = 63


class InvalidRequestError(ValueError):
    """The request cannot be understood; the message names the field and says what to write."""


@dataclass(frozen=True)
class Prompt:
    """A parsed request: exactly one of `text` and `messages` is set.

    `deadline_ms` counts from when the gate got the request. `priority_level` None is the service's default. `client`
    names who asks, for turns among clients of one level; empty when the request does not say. `queue_timeout` is how
    many seconds the client lets it wait for a slot, None for as long as the service does.
    """

    text: str | None
    messages: tuple[dict[str, str], ...] | None
    stream: bool
    sampling: SamplingParameters
    deadline_ms: int | None = None
    priority_level: int | None = None
    client: str = ""
    queue_timeout: float | None = None


def parse_request(inputs: Mapping[str, Any], parameters: Mapping[str, Any]) -> Prompt:
    """Reads the input tensors' values, by name, and the request parameters.

    Values are `bytes` or `bool`. A sampling parameter may come as a request parameter or in the JSON object
    `sampling_parameters`, not in both. Raises `InvalidRequestError`.
    """
    text = _utf8("text_input", inputs["text_input"]) if "text_input" in inputs else None
    messages = _messages(inputs["messages"]) if "messages" in inputs else None
    if (text is None) == (messages is None):
        raise InvalidRequestError("send exactly one of the inputs text_input and messages")
    given: dict[str, Any] = {}
    if "sampling_parameters" in inputs:
        given = _json("sampling_parameters", inputs["sampling_parameters"])
        if not isinstance(given, dict):
            raise InvalidRequestError('sampling_parameters: must be a JSON object such as {"max_tokens": 32}')
    both = sorted(given.keys() & parameters.keys())
    if both:
        raise InvalidRequestError(f"{both[0]}: is in sampling_parameters and a request parameter; send it once")
    values = _read({**given, **parameters})
    about = {key: values.pop(key) for key in ("deadline_ms", "priority_level", "client") if key in values}
    timeout_us = values.pop("timeout", 0)
    return Prompt(
        text=text,
        messages=messages,
        stream=bool(inputs.get("stream", False)),
        sampling=_sampling(values),
        queue_timeout=timeout_us / 1e6 if timeout_us else None,
        **about,
    )


def _read(values: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(values.keys() - _READERS.keys())
    if "priority" in unknown:
        raise InvalidRequestError("priority: Triton keeps this one from its models; send priority_level")
    if unknown:
        raise InvalidRequestError(f"{unknown[0]}: no such sampling parameter; known are {', '.join(_READERS)}")
    return {key: _READERS[key](key, value) for key, value in values.items()}


def _sampling(values: Mapping[str, Any]) -> SamplingParameters:
    sampling = SamplingParameters(**values)
    if sampling.min_tokens > sampling.max_tokens:
        raise InvalidRequestError(
            f"min_tokens: {sampling.min_tokens} is more than max_tokens, which is {sampling.max_tokens}"
        )
    return sampling


def _integer(minimum: int, maximum: int) -> Callable[[str, Any], int]:
    def read(key: str, value: Any) -> int:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(whole, bool) or not isinstance(whole, int) or not minimum <= whole <= maximum:
            raise InvalidRequestError(f"{key}: must be a whole number from {minimum} to {maximum}, not {value!r}")
        return whole

    return read


def _number(minimum: float, maximum: float, open_below: bool = False) -> Callable[[str, Any], float]:
    def read(key: str, value: Any) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not minimum <= value <= maximum or (open_below and value == minimum):
            above = f"above {minimum:g}" if open_below else f"from {minimum:g}"
            raise InvalidRequestError(f"{key}: must be a number {above} to {maximum:g}, not {value!r}")
        return float(value)

    return read


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{key}: must be true or false, not {value!r}")
    return value


def _logprobs(key: str, value: Any) -> int | None:
    return None if value is None else _integer(0, MAX_LOGPROBS)(key, value)


def _logit_bias(key: str, value: Any) -> tuple[tuple[int, float], ...]:
    if not isinstance(value, dict) or len(value) > MAX_BIASES:
        raise InvalidRequestError(
            f'{key}: must be a JSON object of at most {MAX_BIASES} token ids with numbers, such as {{"42": -100}}'
        )
    read_token, read_bias = _integer(0, 2**31 - 1), _number(-100, 100)
    return tuple(
        (
            read_token(f"{key}[{token}]", int(token) if token.isascii() and token.isdigit() else token),
            read_bias(f"{key}[{token}]", bias),
        )
        for token, bias in value.items()
    )


def _client(key: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_CLIENT:
        raise InvalidRequestError(f"{key}: must be a string of at most {MAX_CLIENT} characters, not {value!r:.80}")
    return value


def _adapter(key: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_ADAPTER:
        raise InvalidRequestError(f"{key}: must be the name of an adapter of this service, not {value!r:.80}")
    return value


def _seed(key: str, value: Any) -> int | None:
    return None if value is None else _integer(0, 2**63 - 1)(key, value)


def _stop(key: str, value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    strings = isinstance(values, list) and all(isinstance(item, str) and item for item in values)
    if not strings or len(values) > MAX_STOPS:
        raise InvalidRequestError(f"{key}: must be a string or a list of at most {MAX_STOPS} strings, none empty")
    return tuple(values)


def _token_ids(key: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > MAX_STOPS:
        raise InvalidRequestError(f"{key}: must be a list of at most {MAX_STOPS} token ids, not {value!r}")
    return tuple(_integer(0, 2**31 - 1)(key, item) for item in value)


_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "max_tokens": _integer(1, MAX_TOKENS_LIMIT),
    "temperature": _number(0, 100),
    "top_p": _number(0, 1, open_below=True),
    "top_k": _integer(0, 2**31 - 1),
    "min_p": _number(0, 1),
    "seed": _seed,
    "stop": _stop,
    "stop_token_ids": _token_ids,
    "ignore_eos": _flag,
    "min_tokens": _integer(0, MAX_TOKENS_LIMIT),
    "repetition_penalty": _number(0, 100, open_below=True),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "logit_bias": _logit_bias,
    "logprobs": _logprobs,
    "n": _integer(1, MAX_ANSWERS),
    "adapter": _adapter,
    "deadline_ms": _integer(1, DAY_MS),
    "timeout": _integer(0, DAY_MS * 1000),
    "priority_level": _integer(1, MAX_LEVEL),
    "client": _client,
}


def _messages(raw: Any) -> tuple[dict[str, str], ...]:
    messages = _json("messages", raw)
    if not isinstance(messages, list) or not messages:
        raise InvalidRequestError('messages: must be a JSON list such as [{"role": "user", "content": "Hi"}]')
    for index, message in enumerate(messages):
        for key in ("role", "content"):
            if not isinstance(message, dict) or not isinstance(message.get(key), str):
                raise InvalidRequestError(f"messages[{index}].{key}: must be a string")
    return tuple({"role": message["role"], "content": message["content"]} for message in messages)


def _json(name: str, raw: Any) -> Any:
    text = _utf8(name, raw)
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise InvalidRequestError(f"{name}: half of a surrogate pair is no character; send the whole one") from None
    except ValueError as error:  # not JSON, or a number of more digits than Python reads
        raise InvalidRequestError(f"{name}: is not JSON: {error}") from None
    except RecursionError:
        raise InvalidRequestError(f"{name}: is nested too deeply") from None


def _utf8(name: str, raw: Any) -> str:
    if isinstance(raw, str):
        return raw
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{name}: is not UTF-8: {error}") from None
