"""Brings a dead engine instance back: a request to its model makes Triton see that the process is gone.

See `llmserving.refusal`. The request comes back when the process was started again, weights and all, so it runs in a
thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0


class Revival:
    """Knocks at the engine's model, ever more slowly, while `needed` says so. One attempt at a time."""

    def __init__(self, knock: Callable[[], None], needed: Callable[[], bool]) -> None:
        self._knock = knock
        self._needed = needed
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._running = False

    def begin(self) -> None:
        """Starts, unless it is already under way."""
        with self._lock:
            if self._running or self._ended.is_set():
                return
            self._running = True
        threading.Thread(target=self._run, name="revival", daemon=True).start()

    def close(self) -> None:
        """Ends between two attempts."""
        self._ended.set()

    def _run(self) -> None:
        for pause in pauses():
            if not self._needed():
                break
            self._knock()
            if self._ended.wait(pause):
                break
        with self._lock:
            self._running = False


def pauses() -> Iterator[float]:
    """Seconds between attempts."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def knock_at(pb_utils: Any, model: str) -> Callable[[], None]:
    """Sends `model` one request and throws the answer away: it is always an error."""

    def knock() -> None:
        unused = pb_utils.Tensor("unused", np.zeros(1, dtype=np.int32))
        request = pb_utils.InferenceRequest(model_name=model, requested_output_names=["unused"], inputs=[unused])
        request.exec()

    return knock
