"""Prompts of like length, which attend together as one padded batch.

Everything but attention takes the tokens of a step end to end, whatever prompt they are of. Attention goes prompt by
prompt, and each call costs as much as some ten tokens do; padding costs too, so only what is nearly as long shares one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

LIKE = 7 / 8
"""A prompt shares a call with one longer than itself when it is at least this share as long."""


@dataclass(frozen=True)
class PromptGroup:
    """`count` whole prompts, rows `start` to `end` of the step, each padded to `length` tokens.

    `padded` `[count * length]` are their rows, counted from `start`, with a prompt's last one where it has no more;
    `own` `[end - start]` says where among these the rows stand. None where all prompts are of that length.
    """

    start: int
    end: int
    count: int
    length: int
    padded: Tensor | None
    own: Tensor | None


def prompt_group(start: int, lengths: Sequence[int], device: torch.device) -> PromptGroup:
    """The group of prompts of ascending `lengths` whose rows begin at `start`, one after the other."""
    longest, end = lengths[-1], start + sum(lengths)
    if lengths[0] == longest:
        return PromptGroup(start, end, len(lengths), longest, None, None)
    padded: list[int] = []
    own: list[int] = []
    first = 0
    for at, length in enumerate(lengths):
        padded += [*range(first, first + length), *[first + length - 1] * (longest - length)]
        own += range(at * longest, at * longest + length)
        first += length
    return PromptGroup(
        start, end, len(lengths), longest, torch.tensor(padded, device=device), torch.tensor(own, device=device)
    )


def like_prompts(lengths: Sequence[int], buckets: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of ascending `lengths` that share a call: within one bucket, and of like length.

    `buckets` are upper ends, ascending; what is longer than the last one stands alone.
    """
    ranges: list[tuple[int, int]] = []
    end = len(lengths)
    while end > 0:
        longest = lengths[end - 1]
        bucket = bisect_left(buckets, longest)
        start = end - 1
        if bucket < len(buckets):
            least = max(LIKE * longest, buckets[bucket - 1] + 1 if bucket else 0)
            start = bisect_left(lengths, least, 0, end)
        ranges.append((start, end))
        end = start
    return ranges[::-1]
