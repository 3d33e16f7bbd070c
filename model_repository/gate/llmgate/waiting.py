"""One request in the gate's line: what the client sent, how it is answered, and what its place depends on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from llmgate.fairness import work
from llmgate.levels import Levels
from llmgate.request import InvalidRequestError, Prompt
from llmgate.stream import Stream
from llmserving.engine import Request

CHARACTERS_PER_TOKEN: Final = 4
"""Roughly, of English text: only for what a request may cost, which is put right when it ended."""


@dataclass(eq=False)
class Waiting:
    """A request that waits, or did. `expires` is when it has waited too long; infinite for never."""

    prompt: Prompt
    stream: Stream
    level: int
    arrived: float
    expires: float

    @property
    def client(self) -> str:
        """Who sent it, as far as the request says."""
        return self.prompt.client

    @property
    def expected_work(self) -> float:
        """What it may cost at most, see `fairness.work`."""
        texts = [self.prompt.text or "", *(message["content"] for message in self.prompt.messages or ())]
        prompt_tokens = sum(map(len, texts)) // CHARACTERS_PER_TOKEN
        sampling = self.prompt.sampling
        return work(prompt_tokens, sampling.max_tokens * sampling.n)

    def request(self, key: int, batch: int | None, batch_size: int) -> Request:
        """What the engine gets."""
        return Request(
            key=key,
            prompt=self.prompt.text,
            messages=self.prompt.messages,
            sampling=self.prompt.sampling,
            priority=self.level,
            batch=batch,
            batch_size=batch_size,
            deadline=self.stream.deadline,
        )


def level_of(prompt: Prompt, levels: Levels) -> int:
    """The level a request is of. Raises InvalidRequestError. Where there are no levels it does not matter."""
    if prompt.priority_level is None or levels.count == 1:
        return levels.default
    if prompt.priority_level not in levels.known():
        raise InvalidRequestError(
            f"priority_level: must be a level of this service, from 1 (the highest) to {levels.count}, "
            f"not {prompt.priority_level}"
        )
    return prompt.priority_level


def expiry(prompt: Prompt, stream: Stream, timeout: float | None) -> float:
    """When a request that arrived with `stream` has waited too long: clients may shorten the level's `timeout`."""
    waits = [seconds for seconds in (timeout, prompt.queue_timeout) if seconds is not None]
    ends = [stream.arrived + min(waits)] if waits else []
    if stream.deadline is not None:
        ends.append(stream.deadline)
    return min(ends, default=math.inf)
