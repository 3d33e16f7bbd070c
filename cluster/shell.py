"""Running programs: output to a log file, and an error that shows its last lines."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from cluster.errors import ClusterError

TAIL_LINES = 15


def run(
    command: Iterable[str | Path],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    background: bool = False,
) -> None:
    """Run a program with its output in `log`; raises ClusterError when it fails.

    background: give way to everything else on the machine (nice 10), for long builds.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = [str(argument) for argument in command]
    if background:
        arguments = ["nice", "-n", "10", *arguments]
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(arguments)}\n".encode())
        output.flush()
        try:
            result = subprocess.run(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=folder,
                check=False,
            )
        except FileNotFoundError as error:
            raise ClusterError(f"{arguments[0]} is not installed or not in PATH") from error
    if result.returncode:
        raise ClusterError(
            f"{shlex.join(arguments[:6])} … failed with exit code {result.returncode}; "
            f"the whole log is {log}; its last lines:\n{tail(log)}"
        )


def answer(command: Iterable[str | Path], *, environment: Mapping[str, str] | None = None, text: str = "") -> str:
    """What a quick program prints; raises ClusterError with its complaint when it fails."""
    arguments = [str(argument) for argument in command]
    try:
        result = subprocess.run(
            arguments,
            input=text,
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{arguments[0]} is not installed or not in PATH") from error
    if result.returncode:
        raise ClusterError(f"{shlex.join(arguments[:6])} failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a file, indented; empty when there is none."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def succeeds(command: Iterable[str | Path]) -> bool:
    """Whether a quick program exits with 0."""
    try:
        answer(command)
    except ClusterError:
        return False
    return True
