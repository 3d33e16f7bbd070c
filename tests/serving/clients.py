"""Clients and a meeting place for gate and engine in one process, without Triton."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from llmgate.client import Fault
from llmgate.request import Prompt
from llmserving.engine import Output, SamplingParameters
from llmserving.parameters import MeetingPlace


class RecordingClient:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.tokens: list[Output] = []
        self.finals: Sequence[Output] = ()
        self.error: tuple[str, Fault] | None = None
        self.left = False
        self.looks = 0
        self.ended = threading.Event()

    @property
    def final(self) -> Output | None:
        return self.finals[0] if self.finals else None

    @property
    def text(self) -> str:
        return "".join(output.text for output in [*self.tokens, *self.finals])

    def token(self, output: Output) -> None:
        assert not self.ended.is_set()
        self.tokens.append(output)

    def last(self, outputs: Sequence[Output]) -> None:
        self.finals = outputs
        self._end()

    def fail(self, message: str, fault: Fault) -> None:
        self.error = (message, fault)
        self._end()

    def end(self) -> None:
        self._end()

    def cancelled(self) -> bool:
        assert not self.ended.is_set(), "Triton has freed what this look needs"
        self.looks += 1
        return self.left

    def wait(self, seconds: float = 60.0) -> None:
        """Returns when the client was answered for the last time."""
        assert self.ended.wait(seconds), "no last answer"

    def _end(self) -> None:
        assert not self.ended.is_set(), "answered twice"
        self.ended.set()


def prompt(
    text: str = "hello",
    max_tokens: int = 3,
    stream: bool = True,
    level: int | None = None,
    client: str = "",
    queue_timeout: float | None = None,
    deadline_ms: int | None = None,
) -> Prompt:
    """A parsed request."""
    return Prompt(
        text=text,
        messages=None,
        stream=stream,
        sampling=SamplingParameters(max_tokens=max_tokens),
        deadline_ms=deadline_ms,
        priority_level=level,
        client=client,
        queue_timeout=queue_timeout,
    )


@contextmanager
def meeting_place() -> Iterator[MeetingPlace]:
    """A run directory with a short name, as Unix sockets need."""
    folder = Path(tempfile.mkdtemp(prefix="llm-"))
    try:
        yield MeetingPlace(folder, "chat")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
