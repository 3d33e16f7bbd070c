"""The contract between an engine and the loop that drives it: add, cancel, step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class FinishReason(StrEnum):
    """Why a sequence ended, in the words of the OpenAI API where it has one."""

    STOP = "stop"
    LENGTH = "length"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True)
class SamplingParameters:
    """How the tokens of an answer are chosen, and when it ends. `temperature` 0 is greedy.

    `n` answers are sampled from one prompt. Before `min_tokens` neither an end token nor a stop string ends an answer.
    The repetition penalty (1 is off) divides the logits of tokens of prompt and answer, or multiplies them where they
    are negative; the presence and frequency penalties (0 is off) are subtracted for tokens of the answer. `logit_bias`
    pairs tokens with what is added to their logits. `logprobs` None is off, else how many of the likeliest tokens are
    told beside the chosen one. `adapter` names a LoRA adapter of the service; empty: the model alone.
    """

    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: int | None = None
    n: int = 1
    adapter: str = ""


@dataclass(frozen=True)
class Request:
    """One request as the engine sees it. Exactly one of `prompt` and `messages` is set.

    `key` is unique among the live requests of the engine. `priority` is a level, a smaller one goes first. `batch`
    names the batch a run-to-completion gate formed (`Static`, `Dynamic`): its members run together and nothing joins
    them; None in `Continuous`. `deadline` is a time of `time.monotonic`, one clock for all processes of a host: then
    the engine ends what is not yet answered, with `DEADLINE`.
    """

    key: int
    prompt: str | None = None
    messages: tuple[dict[str, str], ...] | None = None
    sampling: SamplingParameters = field(default_factory=SamplingParameters)
    priority: int = 0
    batch: int | None = None
    batch_size: int = 1
    deadline: float | None = None


@dataclass(frozen=True)
class TokenLogprob:
    """A token of the answer with the natural logarithm of its probability, before penalties and temperature.

    `top` holds the likeliest tokens of that position, each with its text and logarithm, the likeliest first.
    """

    token_id: int
    token: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()


@dataclass(frozen=True)
class Output:
    """What one step gave one answer. `text` holds only the new characters, `token_ids` only the new tokens.

    A request has one answer, or `n` of them told apart by `index`, each with a finish reason of its own; `unfinished`
    of them go on when this one has ended. `CANCELLED` and `ERROR` end the whole request at once. With `ERROR`, `error`
    says why, and `invalid` that the request is at fault (too long, say) and not the engine.
    """

    key: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    index: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    num_input_tokens: int = 0
    num_output_tokens: int = 0
    unfinished: int = 0
    error: str = ""
    invalid: bool = False

    @property
    def ends_request(self) -> bool:
        """Whether nothing of the request follows."""
        return self.finish_reason is not None and self.unfinished == 0


@dataclass(frozen=True)
class EngineStatus:
    """What an engine is doing: sequences that wait and run, and how many its last step computed.

    `kv_cache_usage` is the share of KV memory in use, 0 to 1. `queue_seconds` holds, for each request that the last
    step began, how long it had waited inside the engine. Counted since the start: `preemptions` of sequences, tokens
    looked up in the prefix cache, and tokens found there.
    """

    waiting: int = 0
    running: int = 0
    kv_cache_usage: float = 0.0
    batch_size: int = 0
    queue_seconds: tuple[float, ...] = ()
    preemptions: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0


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
