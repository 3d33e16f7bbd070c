"""One admitted request in the gate, from its first token to its last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from llmgate.client import Client, Fault
from llmgate.gate_metrics import GateMetrics, Outcome
from llmgate.request import Prompt
from llmserving.engine import FinishReason, Output


class Stream:
    """Relays what the engine gives to the client, token by token or, without `prompt.stream`, all at the end.

    A request may have several answers: streamed, each response belongs to one of them; else the last holds all.
    `take` and `fail` belong to one thread, `client_left` to another: the lock keeps a look for cancellation away from
    a response that ends the stream, since Triton frees what the look needs. `when_ended` is called once, with the
    tokens of prompt and answers.
    """

    def __init__(
        self,
        client: Client,
        prompt: Prompt,
        metrics: GateMetrics,
        clock: Callable[[], float],
        level: int = 1,
    ) -> None:
        self.client = client
        self.arrived = clock()
        self.level = level
        self.when_ended: Callable[[int, int], None] = nothing
        self.ended = False
        self.next_look = 0.0
        self._streaming = prompt.stream
        self._answers = prompt.sampling.n
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._parts: list[list[Output]] = [[] for _ in range(self._answers)]
        self.deadline = None if prompt.deadline_ms is None else self.arrived + prompt.deadline_ms / 1000
        self._first_token = 0.0
        self._tokens = 0
        self._prompt_tokens = 0

    def admitted(self) -> None:
        """Counts the time until a slot was free."""
        self._metrics.queue_seconds(self.level).observe(self._clock() - self.arrived)

    def take(self, output: Output) -> None:
        """Handles one output of the engine; after one with a finish reason the stream is ended."""
        if output.token_ids:
            if self._tokens == 0:
                self._first_token = self._clock()
                self._metrics.time_to_first_token(self.level).observe(self._first_token - self.arrived)
            self._tokens += len(output.token_ids)
        self._prompt_tokens = max(self._prompt_tokens, output.num_input_tokens)
        match output.finish_reason:
            case FinishReason.CANCELLED:
                self._end(self.client.end, Outcome.CANCELLED)
            case FinishReason.ERROR:
                self.fail(output.error, Fault.INVALID_ARG if output.invalid else Fault.INTERNAL)
            case _ if output.ends_request:
                self._parts[output.index].append(output)
                whole = [output] if self._streaming else [_joined(parts) for parts in self._parts]
                self._end(lambda: self.client.last(whole), Outcome.COMPLETED)
                self._count_latency()
            case _ if self._streaming:
                self.client.token(output)
            case _:
                self._parts[output.index].append(output)

    def fail(self, message: str, fault: Fault) -> None:
        """Answers with an error and ends the stream."""
        outcome = Outcome.INVALID if fault is Fault.INVALID_ARG else Outcome.FAILED
        self._end(lambda: self.client.fail(message, fault), outcome)

    def reject(self, message: str) -> None:
        """Refuses a request that never had a slot: its client may try again, here or elsewhere."""
        self._end(lambda: self.client.fail(message, Fault.UNAVAILABLE), Outcome.REJECTED)

    def cancel(self) -> None:
        """Ends a stream whose client left before the engine saw it."""
        self._end(self.client.end, Outcome.CANCELLED)

    def client_left(self) -> bool:
        """Whether the client left a stream that goes on."""
        with self._lock:
            return not self.ended and self.client.cancelled()

    def _end(self, answer: Callable[[], None], outcome: Outcome) -> None:
        with self._lock:
            if self.ended:
                return
            self.ended = True
            answer()
        self._metrics.finished(outcome)
        self.when_ended(self._prompt_tokens, self._tokens)

    def _count_latency(self) -> None:
        now = self._clock()
        self._metrics.request_latency.observe(now - self.arrived)
        each = self._tokens / self._answers
        if each > 1:
            self._metrics.time_per_output_token.observe((now - self._first_token) / (each - 1))


def nothing(prompt_tokens: int, output_tokens: int) -> None:
    """What happens at the end of a request that never had a slot."""


def _joined(parts: list[Output]) -> Output:
    """One output with the text and tokens of an answer's parts."""
    return replace(
        parts[-1],
        text="".join(part.text for part in parts),
        token_ids=tuple(token for part in parts for token in part.token_ids),
        logprobs=tuple(logprob for part in parts for logprob in part.logprobs),
    )
