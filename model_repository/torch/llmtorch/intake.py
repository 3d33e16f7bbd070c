"""A request -> the group the engine works on, or why it cannot be served."""

from __future__ import annotations

import random
from dataclasses import dataclass

from llmserving.engine import Request, SamplingParameters
from llmserving.tokenizer import TextTokenizer
from llmtorch.answer import Answer, Group
from llmtorch.sampler import Choosing
from llmtorch.sequence import Sequence, rank
from llmtorch.stop_strings import StopStrings


class RequestError(ValueError):
    """A request that cannot be served; the message says why and what to send instead."""


@dataclass
class Intake:
    """What requests are checked against.

    `max_length` bounds prompt and answer, `capacity_tokens` is what the KV cache holds. `levels` says whether the
    priority of requests matters beyond their order.
    """

    tokenizer: TextTokenizer
    end_tokens: frozenset[int]
    vocabulary: int
    max_length: int
    capacity_tokens: int
    aging_seconds: float
    levels: bool
    _arrivals: int = 0
    _sequences: int = 0

    def group(self, request: Request, arrived: float, batch: int | None) -> Group:
        """The group of a request with its first answer. Raises `RequestError`, and what a template raises."""
        check_sampling(request.sampling, self.vocabulary)
        prompt = self._encode(request)
        if len(prompt) >= min(self.max_length, self.capacity_tokens):
            raise RequestError(self._too_long(len(prompt)))
        self._arrivals += 1
        group = Group(request, self._arrivals, arrived, prompt, unborn=list(range(1, request.sampling.n)))
        self.answer(group, 0, batch)
        return group

    def answer(self, group: Group, index: int, batch: int | None) -> Answer:
        """Adds an answer to a group. Each has random numbers of its own, the first those of the seed itself."""
        request, sampling = group.request, group.request.sampling
        seed = sampling.seed if index == 0 or sampling.seed is None else f"{sampling.seed}/{index}"
        ends = frozenset(sampling.stop_token_ids) | (frozenset() if sampling.ignore_eos else self.end_tokens)
        self._sequences += 1
        sequence = Sequence(
            key=self._sequences,
            tokens=list(group.prompt),
            num_prompt=len(group.prompt),
            rank=rank(group.arrived, request.priority, self.aging_seconds, self._sequences),
            level=request.priority if self.levels else 0,
            batch=batch,
        )
        answer = Answer(
            group=group,
            index=index,
            sequence=sequence,
            max_tokens=min(sampling.max_tokens, min(self.max_length, self.capacity_tokens) - len(group.prompt)),
            choosing=Choosing(sampling, random.Random(seed), group.prompt, ends),  # noqa: S311 -- sampling, no secret
            end_tokens=ends,
            tokenizer=self.tokenizer,
            detokenizer=self.tokenizer.detokenizer(() if request.prompt is None else group.prompt),
            stop_strings=StopStrings(sampling.stop),
        )
        group.live.append(answer)
        return answer

    def _encode(self, request: Request) -> list[int]:
        if (request.prompt is None) == (request.messages is None):
            raise RequestError("send exactly one of text_input and messages")
        try:
            if request.messages is not None:
                tokens = self.tokenizer.encode_chat(request.messages)
            else:
                tokens = self.tokenizer.encode(request.prompt or "")
        except (ValueError, TypeError) as error:
            raise RequestError(str(error)) from error
        if not tokens:
            raise RequestError("the prompt is empty: send at least one token")
        return tokens

    def _too_long(self, count: int) -> str:
        if count >= self.max_length:
            return (
                f"the prompt has {count} tokens; with at least one token of answer the longest this service takes is "
                f"{self.max_length - 1} (spec.model.maxLength {self.max_length}): send a shorter one"
            )
        return (
            f"the prompt has {count} tokens and the KV cache holds {self.capacity_tokens}: "
            "send a shorter one, or give the engine more memory (spec.kvCache.memoryPercent)"
        )


def check_sampling(sampling: SamplingParameters, vocabulary: int) -> None:
    """Raises `RequestError` for parameters outside their bounds."""
    unknown = next((token for token, _ in sampling.logit_bias if not 0 <= token < vocabulary), None)
    bounds = (
        (sampling.max_tokens >= 1, f"max_tokens is {sampling.max_tokens}: send a whole number from 1"),
        (sampling.min_tokens >= 0, f"min_tokens is {sampling.min_tokens}: send a whole number from 0"),
        (sampling.n >= 1, f"n is {sampling.n}: send a whole number from 1"),
        (0.0 <= sampling.temperature < float("inf"), f"temperature is {sampling.temperature}: send a number from 0"),
        (0.0 < sampling.top_p <= 1.0, f"top_p is {sampling.top_p}: send a number above 0, at most 1"),
        (sampling.top_k >= 0, f"top_k is {sampling.top_k}: send 0 (off) or a whole number from 1"),
        (0.0 <= sampling.min_p <= 1.0, f"min_p is {sampling.min_p}: send a number from 0 (off) to 1"),
        (sampling.repetition_penalty > 0, f"repetition_penalty is {sampling.repetition_penalty}: send one above 0"),
        (unknown is None, f"logit_bias names the token {unknown}: the model's are 0 to {vocabulary - 1}"),
        (all(sampling.stop), "stop holds an empty string: leave it out"),
        (not sampling.adapter, f"adapter: the torch engine has none, so no {sampling.adapter!r:.80}: leave it out"),
    )
    for holds, message in bounds:
        if not holds:
            raise RequestError(message)
