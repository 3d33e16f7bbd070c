"""Contenders: driver processes, all alive at once, that take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import ROOT
from benchmarks.serving.driver import encode
from benchmarks.serving.workload import Answer, Load

VLLM_PYTHON = Path(os.environ.get("VLLM_PYTHON", ROOT / ".venv-vllm" / "bin" / "python"))
# As the torch engine sets it for itself (llmtorch/__init__.py): all wait alike, whatever else the machine does.
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}


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


class Contender:
    """A driver in a process of its own. `ready_seconds` is what it took from files to the first load."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        with log.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=ENVIRONMENT,
            )
        self._log = log
        self.ready_seconds = float(self._read()["ready"])

    def run(self, load: Load) -> Result:
        """Runs the load to its end. Raises `RuntimeError` with the end of the driver's log when it fails."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(encode(load)) + "\n")
        self._process.stdin.flush()
        answers = tuple(Answer(sent, times) for sent, times in self._read()["answers"])
        short = [
            i for i, (job, a) in enumerate(zip(load.jobs, answers, strict=True)) if len(a.times) != job.output_tokens
        ]
        if short:
            raise RuntimeError(
                f"{self.name} gave another number of tokens than asked for jobs {short[:5]} of {load.name}"
            )
        return Result(load, answers)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            end = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n" + "\n".join(end))
        message: dict[str, Any] = json.loads(line)
        return message


def start(folder: Path, logs: Path, names: Sequence[str]) -> dict[str, Contender]:
    """Starts the contenders of these names one after the other."""
    contenders: dict[str, Contender] = {}
    for name in names:
        began = time.perf_counter()
        contenders[name] = Contender(name, command(name, folder), logs / f"{name}.log")
        print(f"{name} is ready after {time.perf_counter() - began:.1f} s", flush=True)
    return contenders


def command(name: str, folder: Path) -> list[str]:
    """The command line of a contender's driver."""
    kind, _, mode = name.partition("-")
    python = str(VLLM_PYTHON) if kind == "vllm" else sys.executable
    arguments = [python, "-m", f"benchmarks.serving.{kind}_driver", str(folder)]
    return [*arguments, mode.capitalize()] if mode else arguments
