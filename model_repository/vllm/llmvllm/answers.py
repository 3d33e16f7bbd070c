"""What vLLM gives one request -> our outputs. Duck-typed, so that it needs no vLLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from llmserving.engine import FinishReason, Output, TokenLogprob

REASONS: Final = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "repetition": FinishReason.STOP}
"""vLLM's finish reasons in ours; the others (`abort`, `error`) end a request before its time."""


class Answers:
    """The `n` answers of one request, as they grow.

    `ending` is why we ask vLLM to end the request, where we do.
    """

    def __init__(self, key: int, count: int, num_input_tokens: int, logprobs: int | None) -> None:
        self.key = key
        self.ending: FinishReason | None = None
        self._num_input = num_input_tokens
        self._num_output = [0] * count
        self._unfinished = set(range(count))
        self._logprobs = logprobs

    @property
    def ended(self) -> bool:
        """Whether every answer has its finish reason."""
        return not self._unfinished

    def take(self, completions: Sequence[Any]) -> list[Output]:
        """The outputs of vLLM's `CompletionOutput`s, each with only what is new."""
        return [self._output(completion) for completion in completions if completion.index in self._unfinished]

    def end(self, reason: FinishReason, error: str = "", *, invalid: bool = False) -> list[Output]:
        """The last outputs of a request that ends as a whole; none where it has ended."""
        if self.ended:
            return []
        if reason is FinishReason.DEADLINE:
            return [self._last(index, reason) for index in sorted(self._unfinished)]
        self._unfinished.clear()
        return [Output(self.key, finish_reason=reason, num_input_tokens=self._num_input, error=error, invalid=invalid)]

    def _output(self, completion: Any) -> Output:
        index, tokens = completion.index, tuple(completion.token_ids)
        self._num_output[index] += len(tokens)
        logprobs = self._told(tokens, completion.logprobs)
        if completion.finish_reason is None:
            return Output(self.key, completion.text, tokens, index=index, logprobs=logprobs)
        reason = REASONS.get(completion.finish_reason, self.ending)
        if reason is None:
            reason = FinishReason.ERROR
            self._unfinished.clear()
        error = f"vLLM ended the request: {completion.finish_reason}" if reason is FinishReason.ERROR else ""
        return self._last(index, reason, completion.text, tokens, logprobs, error)

    def _last(
        self,
        index: int,
        reason: FinishReason,
        text: str = "",
        tokens: tuple[int, ...] = (),
        logprobs: tuple[TokenLogprob, ...] = (),
        error: str = "",
    ) -> Output:
        self._unfinished.discard(index)
        return Output(
            self.key,
            text,
            tokens,
            finish_reason=reason,
            index=index,
            logprobs=logprobs,
            num_input_tokens=self._num_input,
            num_output_tokens=self._num_output[index],
            unfinished=len(self._unfinished),
            error=error,
        )

    def _told(self, tokens: Sequence[int], positions: Sequence[Mapping[int, Any]] | None) -> tuple[TokenLogprob, ...]:
        """Of each token; vLLM may give the positions of earlier outputs too, the last ones are ours."""
        if self._logprobs is None or not positions or not tokens:
            return ()
        ours = list(positions)[-len(tokens) :]
        return tuple(self._logprob(token, position) for token, position in zip(tokens, ours, strict=True))

    def _logprob(self, token: int, position: Mapping[int, Any]) -> TokenLogprob:
        """Of one token; vLLM gives the chosen one beside the likeliest ones, whether it is one of them or not."""
        likeliest = sorted(position.items(), key=lambda item: -item[1].logprob)[: self._logprobs]
        return TokenLogprob(
            token_id=token,
            token=position[token].decoded_token or "",
            logprob=position[token].logprob,
            top=tuple((other, entry.decoded_token or "", entry.logprob) for other, entry in likeliest),
        )
