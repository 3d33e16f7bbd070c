"""One replica with continuous batching: sequences join at a step's end, and a prompt's step holds the others up.

A step that computes `n` prompt tokens beside b running sequences takes `prefill(n) + step(b, context) - step(1, 0)`
seconds and gives each of them a token; other steps take `step(b, context)`. Both come from tables, linear between
points and beyond the last. Between two events nothing joins or leaves, so that steps are taken many at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_STEPS = 32.0
"""Steps taken at once: as long as the context may count as constant."""
SAME_TOKEN = 1e-6
"""Of the token clock, below which two values are the same."""
TOKENS_DONE, CONTEXT, PROMPT_ENDS, PROMPT_BEGAN = 0, 1, 2, 3


@dataclass
class TokenState:
    """What one replica remembers between calls.

    `scalars` are: tokens that each sequence was given since the replica started (a common clock, so that a sequence
    ends at a known value of it), tokens of context of all running sequences, and the end and the beginning of the
    prompt step under way (0: none).
    """

    max_sequences: int
    scalars: Floats = field(default_factory=lambda: np.zeros(4))
    running: Ints = field(default_factory=lambda: np.zeros(2, np.int64))
    """[sequences that run, sequences whose prompt is computed]; the latter lie behind the former."""
    ends: Floats = field(init=False)
    """The value of the token clock at which each sequence has its last token."""
    sequences: Floats = field(init=False)
    """(arrival, first token, prompt tokens, output tokens, start) of each."""
    counts: Floats = field(init=False)
    seconds: Floats = field(init=False)
    busy: Floats = field(default_factory=lambda: np.zeros(1))

    def __post_init__(self) -> None:
        room = self.max_sequences + 8
        self.ends = np.zeros(room)
        self.sequences = np.zeros((room, 5))
        self.counts = np.zeros(room + 1)
        self.seconds = np.zeros(room + 1)


def advance_tokens(  # noqa: C901 - compiled as one loop
    clock: float,
    until: float,
    queue: Floats,
    most: int,
    most_prompt_tokens: float,
    kv_tokens: float,
    speed: float,
    sizes: Floats,
    contexts: Floats,
    steps: Floats,
    prompts: Floats,
    prompt_seconds: Floats,
    scalars: Floats,
    running: Ints,
    ends: Floats,
    sequences: Floats,
    counts: Floats,
    seconds: Floats,
    busy_seconds: Floats,
    out: Floats,
) -> tuple[int, int]:
    """Runs one replica from `clock` to `until`. Returns how many of `queue` began, and how many rows of `out` it wrote.

    `queue` has rows (arrival, prompt tokens, output tokens) in order, those that still wait first. Each row of `out` is
    (arrival, start, first token, finish, prompt tokens, output tokens).
    """
    head, written = 0, 0
    total = queue.shape[0]
    seen = 0
    while seen < total and queue[seen, 0] <= clock:
        seen += 1
    never = np.inf
    now = clock
    reserved = 0.0
    for index in range(running[0] + running[1]):
        reserved += sequences[index, 2] + sequences[index, 3]
    last_size = sizes.shape[0] - 1
    last_context = contexts.shape[0] - 1
    last_prompt = prompts.shape[0] - 1
    while True:
        batch = running[0]
        # The time of a decode step, bilinear in batch size and mean context.
        step = 0.0
        if batch > 0:
            mean = scalars[1] / batch
            row = 0
            while row < last_size - 1 and sizes[row + 1] < batch:
                row += 1
            column = 0
            while column < last_context - 1 and contexts[column + 1] < mean:
                column += 1
            x = (batch - sizes[row]) / (sizes[row + 1] - sizes[row])
            y = max(0.0, (mean - contexts[column]) / (contexts[column + 1] - contexts[column]))
            low = steps[row, column] + y * (steps[row, column + 1] - steps[row, column])
            high = steps[row + 1, column] + y * (steps[row + 1, column + 1] - steps[row + 1, column])
            step = (low + x * (high - low)) / speed
        # A step's end is a whole value of the token clock: only there may sequences join.
        left = np.ceil(scalars[0] - SAME_TOKEN) - scalars[0] if batch > 0 else 0.0
        joining = scalars[2] == 0.0 and head < seen and batch < most
        if joining and left <= SAME_TOKEN:
            # A prompt step begins, with all that fit.
            tokens, chosen = 0.0, 0
            while head < seen and batch + chosen < most:
                size = queue[head, 1]
                need = size + queue[head, 2]
                if chosen > 0 and tokens + size > most_prompt_tokens:
                    break
                if batch + chosen > 0 and reserved + need > kv_tokens:
                    break
                place = batch + chosen
                sequences[place, 0] = queue[head, 0]
                sequences[place, 2] = size
                sequences[place, 3] = queue[head, 2]
                sequences[place, 4] = now
                reserved += need
                tokens += size
                chosen += 1
                head += 1
            if chosen > 0:
                place = 0
                while place < last_prompt - 1 and prompts[place + 1] < tokens:
                    place += 1
                part = (tokens - prompts[place]) / (prompts[place + 1] - prompts[place])
                length = prompt_seconds[place] + part * (prompt_seconds[place + 1] - prompt_seconds[place])
                length = max(length, 0.3 * prompt_seconds[0]) / speed
                if batch > 0:
                    length += max(0.0, step - steps[0, 0] / speed)
                scalars[2] = now + length
                scalars[3] = now
                running[1] = chosen
        arrival_at = queue[seen, 0] if seen < total else never
        if scalars[2] > 0.0:
            following = min(arrival_at, scalars[2], until)
            busy_seconds[0] += following - now
            now = following
            if scalars[2] <= now:
                size_now = batch + running[1]
                counts[size_now] += 1
                seconds[size_now] += now - scalars[3]
                scalars[0] += 1.0 if batch > 0 else 0.0
                scalars[1] += batch
                for index in range(batch, size_now):
                    sequences[index, 1] = now
                    ends[index] = np.rint(scalars[0]) + max(0.0, sequences[index, 3] - 1.0)
                    scalars[1] += sequences[index, 2] + 1.0
                running[0] = size_now
                running[1] = 0
                scalars[2] = 0.0
        elif batch > 0:
            nearest = never
            for index in range(batch):
                nearest = min(nearest, ends[index])
            ahead = min(max(0.0, nearest - scalars[0]), MOST_STEPS)
            if joining and left > SAME_TOKEN:
                ahead = min(ahead, left)
            following = min(now + ahead * step, arrival_at, until)
            taken = (following - now) / step
            scalars[0] += taken
            scalars[1] += taken * batch
            counts[batch] += taken
            seconds[batch] += following - now
            busy_seconds[0] += following - now
            now = following
        else:
            following = min(arrival_at, until)
            now = following
        # Sequences that have their last token leave.
        index = 0
        while index < running[0]:
            if ends[index] <= scalars[0] + SAME_TOKEN:
                out[written, 0] = sequences[index, 0]
                out[written, 1] = sequences[index, 4]
                out[written, 2] = sequences[index, 1]
                out[written, 3] = now
                out[written, 4] = sequences[index, 2]
                out[written, 5] = sequences[index, 3]
                written += 1
                reserved -= sequences[index, 2] + sequences[index, 3]
                # With what a prompt's step, which gives whole tokens, gave it beyond its last one.
                scalars[1] -= sequences[index, 2] + sequences[index, 3] + scalars[0] - ends[index]
                last = running[0] - 1
                end = last + running[1]  # prompts under way keep their place behind
                ends[index] = ends[last]
                for column in range(5):
                    sequences[index, column] = sequences[last, column]
                if end > last:
                    ends[last] = ends[end]
                    for column in range(5):
                        sequences[last, column] = sequences[end, column]
                running[0] = last
            else:
                index += 1
        if running[0] == 0:
            scalars[1] = 0.0
            scalars[0] = np.floor(scalars[0])
        if arrival_at <= now:
            seen += 1
        if now >= until:
            return head, written
