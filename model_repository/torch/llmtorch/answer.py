"""A request inside the engine and its answers: from tokens to text, and to the reason for the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from llmserving.detokenizer import Detokenizer
from llmserving.engine import FinishReason, Output, Request, TokenLogprob
from llmserving.tokenizer import TextTokenizer
from llmtorch.sampler import Choosing, Chosen
from llmtorch.sequence import Sequence
from llmtorch.stop_strings import StopStrings


@dataclass(eq=False)
class Group:
    """One request: the answers that go on, and the indices of those that begin when its prompt is in the cache.

    `arrived` is a time of the engine's clock; `started` is set when the first step of the request was scheduled.
    """

    request: Request
    arrival: int
    arrived: float
    prompt: list[int]
    live: list[Answer] = field(default_factory=list)
    unborn: list[int] = field(default_factory=list)
    started: bool = False

    @property
    def unfinished(self) -> int:
        """Answers that have not ended."""
        return len(self.live) + len(self.unborn)


@dataclass(eq=False)
class Answer:
    """One answer of a group. `end_tokens` end it and have no text."""

    group: Group
    index: int
    sequence: Sequence
    max_tokens: int
    choosing: Choosing
    end_tokens: frozenset[int]
    tokenizer: TextTokenizer
    detokenizer: Detokenizer
    stop_strings: StopStrings

    def take(self, chosen: Chosen) -> tuple[Output, FinishReason | None]:
        """Appends a token that was chosen; what it gives, and whether it ends the answer."""
        token = chosen.token
        self.sequence.tokens.append(token)
        length = self.sequence.num_output
        logprobs = () if chosen.logprob is None else (self._logprob(token, chosen.logprob, chosen.top),)
        reason, text = None, ""
        if token in self.end_tokens:
            reason, text = FinishReason.STOP, self.rest()
        else:
            text = self.detokenizer.push(token)
            stopped = False
            if length >= self.group.request.sampling.min_tokens:
                text, stopped = self.stop_strings.push(text)
            if stopped:
                reason = FinishReason.STOP
            elif length >= self.max_tokens:
                reason, text = FinishReason.LENGTH, text + self.rest()
        return Output(self.group.request.key, text, (token,), index=self.index, logprobs=logprobs), reason

    def rest(self) -> str:
        """Text that was held back, when the answer ends for another reason than a stop string."""
        shown, stopped = self.stop_strings.push(self.detokenizer.flush())
        return shown if stopped else shown + self.stop_strings.flush()

    def _logprob(self, token: int, logprob: float, top: Iterable[tuple[int, float]]) -> TokenLogprob:
        text = self.tokenizer.token_text
        return TokenLogprob(token, text(token), logprob, tuple((other, text(other), value) for other, value in top))
