"""A request's body and headers -> what to ask of the gate, and how to tell the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import Field

from llmservice.openai.errors import invalid
from llmservice.openai.fields import (
    LONGEST_SECONDS,
    LOWEST_LEVEL,
    MOST_CHOICES,
    MOST_LOGPROBS,
    MOST_TOKENS,
    CommonFields,
    Count,
    read_fields,
)
from llmservice.openai.generation import Generation
from llmservice.openai.messages import read_messages
from llmservice.openai.refused import CHAT, COMPLETION, without_refused

PRIORITY_HEADER: Final = "X-LLM-Priority"
TIMEOUT_HEADER: Final = "X-LLM-Timeout"
"""The extensions for clients and gateways that cannot write into the body. A header goes before the body's field."""

COMPLETION_TOKENS: Final = 16
"""OpenAI's default for completions. A chat answer has none: it ends by itself, or with the context."""


@dataclass(frozen=True)
class Asked:
    """A parsed request. Choices are numbered prompt by prompt, `choices_each` for each of `generations`.

    `top_logprobs` None is off. `echo` holds what goes before each choice.
    """

    model: str
    generations: tuple[Generation, ...]
    choices_each: int
    stream: bool
    include_usage: bool
    top_logprobs: int | None
    echo: tuple[str, ...]


@dataclass(frozen=True)
class Caller:
    """Who asks, and how long an answer may take at most, in seconds.

    `client` is the name of the key, empty without keys. It goes before what the body says of itself: whoever has one
    key would else get more turns by naming more users.
    """

    headers: Mapping[str, str]
    most_seconds: float
    client: str = ""
    request_id: str = ""


class ChatFields(CommonFields):
    """`/v1/chat/completions`."""

    messages: Any
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=MOST_LOGPROBS)] = None


class CompletionFields(CommonFields):
    """`/v1/completions`."""

    prompt: Any
    logprobs: Annotated[int | None, Field(ge=0, le=MOST_LOGPROBS)] = None
    echo: bool | None = None
    best_of: Annotated[int | None, Field(ge=1, le=MOST_CHOICES)] = None


def read_chat(body: Mapping[str, Any], caller: Caller) -> Asked:
    """A chat request. Raises ApiError."""
    fields = read_fields(ChatFields, without_refused(body, CHAT))
    if fields.top_logprobs is not None and not fields.logprobs:
        raise invalid("top_logprobs needs logprobs: true", "top_logprobs", "invalid_value")
    both = {most for most in (fields.max_tokens, fields.max_completion_tokens) if most is not None}
    if len(both) > 1:
        raise invalid("max_completion_tokens and max_tokens say two things: send one", "max_completion_tokens")
    messages = read_messages(fields.messages)
    top = (fields.top_logprobs or 0) if fields.logprobs else None
    sampling = _sampling(fields, top, next(iter(both), MOST_TOKENS))
    return _asked(fields, [(None, messages)], sampling, top, caller)


def read_completion(body: Mapping[str, Any], caller: Caller) -> Asked:
    """A completion request. Raises ApiError."""
    fields = read_fields(CompletionFields, without_refused(body, COMPLETION))
    if fields.best_of not in (None, fields.n or 1):
        raise invalid(
            "best_of is not supported: every one of n choices is returned", "best_of", "unsupported_parameter"
        )
    if fields.echo and fields.logprobs is not None:
        raise invalid("echo with logprobs is not supported: prompts get no logprobs", "echo", "unsupported_parameter")
    prompts = _prompts(fields.prompt)
    if len(prompts) * (fields.n or 1) > MOST_CHOICES:
        raise invalid(f"prompt: prompts times n must be at most {MOST_CHOICES}", "prompt", "invalid_value")
    sampling = _sampling(fields, fields.logprobs, fields.max_tokens or COMPLETION_TOKENS)
    echo = prompts if fields.echo else ()
    asked = [(prompt, None) for prompt in prompts]
    return _asked(fields, asked, sampling, fields.logprobs, caller, echo)


def through_adapter(asked: Asked) -> Asked:
    """The same through the adapter that its model is the name of."""
    generations = (replace(one, sampling={**one.sampling, "adapter": asked.model}) for one in asked.generations)
    return replace(asked, generations=tuple(generations))


def _sampling(fields: CommonFields, top_logprobs: int | None, max_tokens: int) -> dict[str, Any]:
    sampling = {**fields.sampling(), "max_tokens": max_tokens}
    return sampling if top_logprobs is None else {**sampling, "logprobs": top_logprobs}


def _asked(
    fields: CommonFields,
    prompts: Sequence[tuple[str | None, tuple[Mapping[str, str], ...] | None]],
    sampling: Mapping[str, Any],
    top_logprobs: int | None,
    caller: Caller,
    echo: tuple[str, ...] = (),
) -> Asked:
    stream = bool(fields.stream)
    options = fields.stream_options
    if options is not None and not stream:
        raise invalid("stream_options needs stream: true", "stream_options", "invalid_value")
    timeout = _header(caller.headers, TIMEOUT_HEADER, fields.timeout, float, LONGEST_SECONDS)
    generations = tuple(
        Generation(
            prompt=text,
            messages=messages,
            sampling=sampling,
            stream=stream,
            timeout_seconds=min(timeout or caller.most_seconds, caller.most_seconds),
            priority=_header(caller.headers, PRIORITY_HEADER, fields.priority, int, LOWEST_LEVEL),
            client=caller.client or fields.who,
            request_id=caller.request_id,
        )
        for text, messages in prompts
    )
    usage = bool(options and options.include_usage)
    return Asked(fields.model, generations, fields.n or 1, stream, usage, top_logprobs, echo)


def _prompts(prompt: Any) -> tuple[str, ...]:
    prompts = [prompt] if isinstance(prompt, str) else prompt
    if isinstance(prompts, list) and prompts and all(isinstance(one, str) for one in prompts):
        return tuple(prompts)
    if isinstance(prompts, list) and prompts and all(isinstance(one, int | list) for one in prompts):
        raise invalid("prompt: token ids are not supported: send text", "prompt", "unsupported_parameter")
    raise invalid("prompt: must be a string or a list of strings", "prompt", "invalid_value")


def _header(headers: Mapping[str, str], name: str, said: Any, kind: type[int] | type[float], most: float) -> Any:
    """A number in a header, else what the body said. Raises ApiError."""
    text = headers.get(name)
    if text is None:
        return said
    try:
        value = kind(text)
    except ValueError:
        value = kind(0)
    if not 0 < value <= most or (kind is int and value < 1):
        raise invalid(f"{name}: must be a number from 1 to {most:g}, not {text!r}", name, "invalid_value")
    return value
