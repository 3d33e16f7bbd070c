"""What is asked of every contender: lengths, and when each request is sent. Pure; needs nothing outside Python.

Drivers import it in environments of their own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

MEAN_TOKENS = 64
SIGMA = 0.8
SHORTEST, LONGEST = 4, 400
# One token each, with the space before it, in the vocabulary of SmolLM2 and of most others.
WORDS = (" time", " people", " water", " house", " light", " world", " music", " river", " small", " green", " night")


@dataclass(frozen=True)
class Job:
    """One request: tokens of its prompt and of its answer, which always has its full length."""

    prompt_tokens: int
    output_tokens: int
    seed: int = 0

    def prompt(self) -> str:
        """Words of one token each; other seeds begin differently, so that no prefix is shared."""
        chance = random.Random(self.seed)
        return "".join(chance.choice(WORDS) for _ in range(self.prompt_tokens))


@dataclass(frozen=True)
class Load:
    """Jobs, and how they are sent: each of `streams` sends its next when its last is answered, or at `arrivals`.

    `arrivals` are seconds from the start, one for each job; then `streams` only bounds the batch of contenders that
    have one of fixed size.
    """

    name: str
    jobs: tuple[Job, ...]
    streams: int
    arrivals: tuple[float, ...] = ()

    @property
    def output_tokens(self) -> int:
        """Tokens of all answers."""
        return sum(job.output_tokens for job in self.jobs)


@dataclass
class Answer:
    """What became of a job, in seconds from the start of the load: when it was sent, and when each token came."""

    sent: float
    times: list[float] = field(default_factory=list)

    @property
    def latency(self) -> float:
        """Seconds from sending to the last token."""
        return self.times[-1] - self.sent

    @property
    def first_token(self) -> float:
        """Seconds from sending to the first token."""
        return self.times[0] - self.sent

    def gaps(self) -> list[float]:
        """Seconds between tokens."""
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


def fixed(streams: int, rounds: int, tokens: int = MEAN_TOKENS, seed: int = 0) -> Load:
    """`rounds` jobs for each stream, prompt and answer of `tokens` each."""
    jobs = tuple(Job(tokens, tokens, seed + index) for index in range(streams * rounds))
    return Load(f"fixed {tokens}/{tokens}", jobs, streams)


def mixed(streams: int, rounds: int, seed: int = 0) -> Load:
    """Log-normal lengths of prompts and answers, mean 64, sigma 0.8, the same ones for the same seed."""
    chance = random.Random(seed)
    jobs = tuple(Job(_length(chance), _length(chance), seed + index) for index in range(streams * rounds))
    return Load("mixed", jobs, streams)


def open_loop(load: Load, requests_per_second: float, seed: int = 0) -> Load:
    """The jobs of `load`, arriving as a Poisson process."""
    chance = random.Random(seed)
    at, arrivals = 0.0, []
    for _ in load.jobs:
        at += chance.expovariate(requests_per_second)
        arrivals.append(at)
    return Load(f"{load.name} open", load.jobs, load.streams, tuple(arrivals))


def bursts(load: Load, size: int, seconds_between: float) -> Load:
    """The jobs of `load`, arriving `size` at a time."""
    arrivals = tuple(index // size * seconds_between for index in range(len(load.jobs)))
    return Load(f"{load.name} bursts", load.jobs, load.streams, arrivals)


def recorded(
    times: Sequence[float],
    prompts: Sequence[float],
    answers: Sequence[float],
    streams: int,
    tokens_per_second: float,
    seed: int = 0,
) -> Load:
    """A recorded trace, scaled down: answers to a mean of 64 tokens, and prompts by the same share.

    Its time is stretched so that `tokens_per_second` are asked for. Who is long and who comes when stays as it was.
    """
    share = MEAN_TOKENS * len(answers) / sum(answers)
    jobs = tuple(
        Job(_bounded(prompt * share), _bounded(answer * share), seed + index)
        for index, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
    )
    seconds = sum(job.output_tokens for job in jobs) / tokens_per_second
    pace = seconds / ((times[-1] - times[0]) or 1.0)
    return Load("recorded", jobs, streams, tuple((time - times[0]) * pace for time in times))


def long_prompts(streams: int, answers: int, prompts: int, prompt_tokens: int, seed: int = 0) -> Load:
    """Streams that decode `answers` tokens while `prompts` long prompts arrive one after the other beside them."""
    watched = [Job(8, answers, seed + index) for index in range(streams)]
    arriving = [Job(prompt_tokens, 2, seed + 1000 + index) for index in range(prompts)]
    arrivals = [0.0] * streams + [0.5 + index for index in range(prompts)]
    return Load("long prompts", (*watched, *arriving), streams + prompts, tuple(arrivals))


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _length(chance: random.Random) -> int:
    """Mean of a log-normal is exp(mu + sigma**2 / 2)."""
    mu = math.log(MEAN_TOKENS) - SIGMA**2 / 2
    return _bounded(chance.lognormvariate(mu, SIGMA))


def _bounded(tokens: float) -> int:
    return min(LONGEST, max(SHORTEST, round(tokens)))
