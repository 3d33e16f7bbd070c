"""The contract between an engine and the loop that drives it: add, cancel, step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class FinishReason(StrEnum):
    """Why a sequence ended, in the words of the OpenAI API where it has one."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True)
class SamplingParameters:
    """How the next token is chosen. `temperature` 0 is greedy."""

    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False


@dataclass(frozen=True)
class Request:
    """One request as the engine sees it. Exactly one of `prompt` and `messages` is set.

    `key` is unique among the live requests of the engine. `batch` names the batch a run-to-completion gate formed
    (`Static`, `Dynamic`): its members run together and nothing joins them; None in `Continuous`.
    """

    key: int
    prompt: str | None = None
    messages: tuple[dict[str, str], ...] | None = None
    sampling: SamplingParameters = field(default_factory=SamplingParameters)
    priority: int = 0
    batch: int | None = None
    batch_size: int = 1


@dataclass(frozen=True)
class Output:
    """What one step gave one request. `text` holds only the new characters, `token_ids` only the new tokens.

    With `ERROR`, `error` says why, and `invalid` that the request is at fault (too long, say) and not the engine.
    """

    key: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    num_input_tokens: int = 0
    num_output_tokens: int = 0
    error: str = ""
    invalid: bool = False


@dataclass(frozen=True)
class EngineStatus:
    """What an engine is doing: sequences that wait and run, and how many its last step computed.

    `kv_cache_usage` is the share of KV memory in use, 0 to 1.
    """

    waiting: int = 0
    running: int = 0
    kv_cache_usage: float = 0.0
    batch_size: int = 0


class Engine(Protocol):
    """Driven by one thread; `step` never blocks longer than one iteration of the model."""

    def add(self, request: Request) -> None:
        """Takes a request into the engine's own waiting line. A bad request is answered by the next `step`."""

    def cancel(self, key: int) -> None:
        """Ends a request within one step. An unknown key is ignored: it may just have finished."""

    def has_work(self) -> bool:
        """Whether `step` would do anything."""

    def step(self) -> list[Output]:
        """Runs one iteration and returns what it gave. A cancelled request gets a last Output with `CANCELLED`."""

    def status(self) -> EngineStatus:
        """What the engine is doing; read after every step, so it must be cheap."""

    def close(self) -> None:
        """Frees everything. Called once, after the last step."""
