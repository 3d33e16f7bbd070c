"""Requests that nobody sent, before the first that somebody did: what is compiled, allocated or paged in is so by then.

They go to the engine itself before gates may come, so they are in no count of the gate's, hold no slot, and Triton's
readiness waits for them. `warm_up: "false"` among the engine's parameters leaves them out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from llmserving.engine import Engine, FinishReason, Request, SamplingParameters

LONG_PROMPT: Final = "The quick brown fox jumps over the lazy dog. " * 12
SHORT_PROMPT: Final = "Hello"
TOKENS: Final = 8
MOST_TOGETHER: Final = 4
LIMIT_SECONDS: Final = 300.0
POLL_SECONDS: Final = 0.002


class WarmUpError(RuntimeError):
    """The engine could not answer a request of its warm-up, so it could answer nobody's."""


def warm_up(
    engine: Engine,
    max_sequences: int,
    *,
    batches: bool,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> float:
    """Runs a long prompt alone, then a few short ones together; answers the seconds it took.

    `batches`: the engine runs batches that a gate formed. A prompt too long for the model is left out. What takes
    longer than `LIMIT_SECONDS` is cancelled and said. Raises WarmUpError, and what the engine raises.
    """
    started = clock()
    for requests in _rounds(max_sequences, batches=batches):
        if not _run(engine, requests, started + LIMIT_SECONDS, clock, pause):
            text = f"llmservice: the warm-up was ended after {LIMIT_SECONDS:.0f} s; the first requests will be slow"
            print(text, file=sys.stderr, flush=True)  # noqa: T201 -- Triton's log
            break
    return clock() - started


def _rounds(max_sequences: int, *, batches: bool) -> Iterator[list[Request]]:
    """Keys are negative: no gate's are."""
    sampling = SamplingParameters(max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
    yield [Request(-1, LONG_PROMPT, sampling=sampling, batch=-1 if batches else None)]
    together = min(max_sequences, MOST_TOGETHER)
    yield [
        Request(-2 - number, SHORT_PROMPT, sampling=sampling, batch=-2 if batches else None, batch_size=together)
        for number in range(together)
    ]


def _run(
    engine: Engine,
    requests: list[Request],
    deadline: float,
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> bool:
    """Whether all ended in time; those that did not are cancelled, and ended all the same when this returns."""
    for request in requests:
        engine.add(request)
    live = {request.key for request in requests}
    in_time = True
    while live:
        if in_time and clock() > deadline:
            in_time = False
            for key in live:
                engine.cancel(key)
        if not engine.has_work():
            pause(POLL_SECONDS)
            continue
        for output in engine.step():
            if output.finish_reason is FinishReason.ERROR and not output.invalid:
                raise WarmUpError(f"the engine's warm-up failed: {output.error}")
            if output.ends_request:
                live.discard(output.key)
    return in_time
