"""When a request to the API server is tried again, and after how long."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from llmservice.kube.errors import KubeError, TooManyRequests, Unavailable


@dataclass(frozen=True)
class RetryPolicy:
    """Seconds: all attempts together, the first pause, the longest pause. Pauses double and are jittered."""

    deadline: float = 30.0
    first_pause: float = 0.2
    longest_pause: float = 5.0
    random: Callable[[], float] = random.random

    def pause(self, error: KubeError, *, attempt: int, elapsed: float, repeatable: bool) -> float | None:
        """Seconds to wait before trying again, or None when the error is to be raised.

        `attempt` counts from 1. `repeatable` says that a second run of a request that may already have been carried
        out does no harm. A server that names a time (429, `Retry-After`) is waited for that long and a little more,
        so that clients do not come back all at once.
        """
        if isinstance(error, TooManyRequests):
            pause = error.retry_after + self.random() * self.first_pause
        elif isinstance(error, Unavailable) and (repeatable or not error.may_have_happened):
            pause = min(self.longest_pause, self.first_pause * 2 ** (attempt - 1)) * (0.5 + self.random() / 2)
        else:
            return None
        return pause if elapsed + pause < self.deadline else None
