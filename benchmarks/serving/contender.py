"""Contenders: all alive at once, they take turns. Each is a process of its own that this one talks to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.figures import ROOT
from benchmarks.serving.driver import encode
from benchmarks.serving.workload import Answer, Load

LOG_LINES = 12
EXIT_SECONDS = 30


class ContenderError(RuntimeError):
    """A contender did not start, failed, hung, or answered otherwise than asked; the message ends with its log."""


@dataclass(frozen=True)
class Result:
    """One load run by one contender."""

    load: Load
    answers: tuple[Answer, ...]

    @property
    def seconds(self) -> float:
        """From the start to the last token."""
        return max(answer.times[-1] for answer in self.answers)

    @property
    def tokens_per_second(self) -> float:
        """Tokens that were asked for, over the whole time."""
        return self.load.output_tokens / self.seconds


class Contender(Protocol):
    """Who runs loads. `ready_seconds` is what it took from files to the first load."""

    ready_seconds: float

    def run(self, load: Load, limit_seconds: float) -> Result:
        """Runs the load to its end. Raises `ContenderError`, also when it takes longer than `limit_seconds`."""

    def close(self) -> None:
        """Ends it."""


def checked(name: str, load: Load, answers: Sequence[Answer]) -> Result:
    """The result of a load whose answers all have the length that was asked for. Raises `ContenderError`."""
    wrong = [i for i, (job, a) in enumerate(zip(load.jobs, answers, strict=True)) if len(a.times) != job.output_tokens]
    if wrong:
        raise ContenderError(f"{name} gave another number of tokens than asked for jobs {wrong[:5]} of {load.name}")
    return Result(load, tuple(answers))


def log_end(log: Path) -> str:
    """The last lines of a log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-LOG_LINES:])


class DriverProcess:
    """A driver that speaks the protocol of `driver.serve`."""

    def __init__(self, name: str, command: Sequence[str], log: Path, start_seconds: float) -> None:
        self._name = name
        self._log = log
        with log.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                start_new_session=True,  # vLLM's engine is a process of the same group, so that a kill reaches it too
                env={**os.environ, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
            )
        try:
            with self._killed_after(start_seconds):
                self.ready_seconds = float(self._read()["ready"])
        except BaseException:
            self.close()
            raise

    def run(self, load: Load, limit_seconds: float) -> Result:
        """See `Contender`."""
        assert self._process.stdin is not None
        with self._killed_after(limit_seconds):
            with suppress(BrokenPipeError):  # it died between two loads: reading tells how
                self._process.stdin.write(json.dumps(encode(load)) + "\n")
                self._process.stdin.flush()
            answers = [Answer(sent, times) for sent, times in self._read()["answers"]]
        return checked(self._name, load, answers)

    def close(self) -> None:
        """Ends the process; one that does not go by itself is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=EXIT_SECONDS)
        self._kill()
        self._process.wait()
        self._process.stdout.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        """A process that hangs says nothing: killed, it at least ends its output."""
        timer = threading.Timer(seconds, self._kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            killed = "was killed, for it took too long or the host had no memory"
            how = killed if status == -signal.SIGKILL else f"ended with {status}"
            raise ContenderError(f"{self._name} {how}:\n{log_end(self._log)}")
        message: dict[str, Any] = json.loads(line)
        return message
