"""An engine that computes nothing and takes a declared time for it: a step of b sequences takes a + c·b seconds."""

from __future__ import annotations

import time
from bisect import insort, insort_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from llmserving.engine import EngineStatus, FinishReason, Output, Request

REMEMBERED = 1000


@dataclass
class _Sequence:
    request: Request
    produced: int = 0


class PacedEngine:
    """Each sequence gets one token per step, the word `t<n>`, and ends with `LENGTH`.

    As in the engines that compute, a request of a higher level takes the seat of one of a lower level, the last that
    came; that one goes on later where it was. The prompt `refuse` is answered as a bad request, and `crash` makes the
    next step raise. Requests with a `batch` wait until all of it is there and run alone, to completion.
    """

    def __init__(
        self,
        max_sequences: int,
        step_seconds: float = 0.008,
        sequence_seconds: float = 0.0005,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._max_sequences = max_sequences
        self._step_seconds = step_seconds
        self._sequence_seconds = sequence_seconds
        self._sleep = sleep
        self._waiting: list[_Sequence] = []
        self._running: list[_Sequence] = []
        self._cancelled: set[int] = set()
        self._left: dict[int, int] = {}
        self._batch_size = 0
        self.batches: deque[list[int]] = deque(maxlen=REMEMBERED)
        self.taken: deque[Request] = deque(maxlen=REMEMBERED)

    def add(self, request: Request) -> None:
        self.taken.append(request)
        insort(self._waiting, _Sequence(request), key=_level)

    def cancel(self, key: int) -> None:
        self._cancelled.add(key)

    def has_work(self) -> bool:
        return bool(self._running or self._cancelled or self._next())

    def step(self) -> list[Output]:
        outputs = self._end_late() + self._drop_cancelled()
        self._give_way()
        admitted = self._next()
        for sequence in admitted:
            self._waiting.remove(sequence)
        if admitted:
            self.batches.append([sequence.request.key for sequence in admitted])
        outputs += [self._refused(sequence) for sequence in admitted if sequence.request.prompt == "refuse"]
        self._running += [sequence for sequence in admitted if sequence.request.prompt != "refuse"]
        self._batch_size = len(self._running)
        if self._running:
            self._sleep(self._step_seconds + self._sequence_seconds * self._batch_size)
            outputs += [self._token(sequence) for sequence in self._running]
            self._running = [one for one in self._running if one.produced < one.request.sampling.max_tokens]
        return outputs

    def status(self) -> EngineStatus:
        return EngineStatus(
            waiting=len(self._waiting),
            running=len(self._running),
            kv_cache_usage=len(self._running) / self._max_sequences,
            batch_size=self._batch_size,
        )

    def close(self) -> None:
        self._waiting.clear()

    def _next(self) -> list[_Sequence]:
        """The sequences that may join now."""
        if not self._waiting:
            return []
        batch = self._waiting[0].request.batch
        if batch is None:
            room = self._max_sequences - len(self._running)
            return [one for one in self._waiting if one.request.batch is None][:room]
        members = [one for one in self._waiting if one.request.batch == batch]
        whole = len(members) + self._left.get(batch, 0) >= members[0].request.batch_size
        return members if whole and not self._running else []

    def _give_way(self) -> None:
        room = self._max_sequences - len(self._running)
        for urgent in [one for one in self._waiting if one.request.batch is None][max(room, 0) :]:
            last = max(reversed(self._running), key=_level, default=urgent)
            if _level(last) <= _level(urgent):
                return
            self._running.remove(last)
            insort_left(self._waiting, last, key=_level)

    def _drop_cancelled(self) -> list[Output]:
        dropped = [one for one in [*self._running, *self._waiting] if one.request.key in self._cancelled]
        self._cancelled.clear()
        for one in dropped:
            if one in self._running:
                self._running.remove(one)
            else:
                self._waiting.remove(one)
                if one.request.batch is not None:
                    self._left[one.request.batch] = self._left.get(one.request.batch, 0) + 1
        return [
            Output(key=one.request.key, finish_reason=FinishReason.CANCELLED, num_output_tokens=one.produced)
            for one in dropped
        ]

    def _end_late(self) -> list[Output]:
        """Ends what is over its deadline."""
        now = time.monotonic()
        late = [one for one in [*self._running, *self._waiting] if (one.request.deadline or now) < now]
        for one in late:
            (self._running if one in self._running else self._waiting).remove(one)
        return [
            Output(key=one.request.key, finish_reason=FinishReason.DEADLINE, num_output_tokens=one.produced)
            for one in late
        ]

    def _refused(self, sequence: _Sequence) -> Output:
        return Output(
            key=sequence.request.key,
            finish_reason=FinishReason.ERROR,
            error="text_input: this prompt is refused",
            invalid=True,
        )

    def _token(self, sequence: _Sequence) -> Output:
        request = sequence.request
        if request.prompt == "crash":
            raise RuntimeError("the device is lost")
        number = sequence.produced
        sequence.produced += 1
        last = sequence.produced >= request.sampling.max_tokens
        return Output(
            key=request.key,
            text=f"t{number} ",
            token_ids=(number,),
            finish_reason=FinishReason.LENGTH if last else None,
            num_input_tokens=len((request.prompt or "").split()),
            num_output_tokens=sequence.produced,
        )


def _level(sequence: _Sequence) -> int:
    """A batch keeps the order in which the gate formed it."""
    return sequence.request.priority if sequence.request.batch is None else 0
