"""What the reader sees: a title with a reason, and every command as a line to copy, with its real output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

BOLD, DIM, GREEN, RED, RESET = (
    ("\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m")
    if sys.stdout.isatty()
    else (
        "",
        "",
        "",
        "",
        "",
    )
)


_BASH = ("/bin/bash", "-o", "pipefail", "-c")  # a command that fails fails its line, whatever filters its output


def _without_ages(line: str) -> list[str]:
    return [word for word in line.split() if not re.fullmatch(r"(\d+[smhd])+", word)]


class DemoError(RuntimeError):
    """A step did not do what it shows; the message says which and how to look further."""


class Terminal:
    """Runs shell commands in one environment and shows them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**os.environ, **environment}
        self._started = time.monotonic()

    def reaching(self, environment: Mapping[str, str]) -> Terminal:
        """The same demo and its clock, in an environment with more in it."""
        other = Terminal({**self._environment, **environment})
        other._started = self._started
        return other

    def title(self, text: str, why: str = "") -> None:
        """A step begins."""
        elapsed = time.monotonic() - self._started
        print(f"\n{BOLD}» {text}{RESET} {DIM}[{elapsed:.0f} s]{RESET}", flush=True)
        if why:
            print(f"{DIM}  {why}{RESET}", flush=True)

    def note(self, text: str) -> None:
        """A line of explanation."""
        print(f"{GREEN}  {text}{RESET}", flush=True)

    def run(self, command: str, *, fails: bool = False) -> None:
        """Shows a command, runs it, lets its output through. Raises DemoError when it ends otherwise than expected."""
        print(f"{BOLD}$ {command}{RESET}", flush=True)
        code = subprocess.run([*_BASH, command], env=self._environment, check=False).returncode
        if (code != 0) is not fails:
            raise DemoError(f"the command ended with {code}: {command}")

    def ask(self, command: str) -> str:
        """The output of a command that is not shown; empty when it fails."""
        result = subprocess.run(
            [*_BASH, command], env=self._environment, check=False, capture_output=True, text=True, timeout=60
        )
        return result.stdout.strip() if result.returncode == 0 else ""

    def follow(self, command: str, *, until: str, timeout: float) -> str:
        """Shows a command, repeats it and shows each line that is new until one holds `until`; returns that line."""
        print(f"{BOLD}$ {command} -w{RESET}", flush=True)
        seen: set[str] = set()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for line in self.ask(command).splitlines():
                # The header's spacing and the age change without anything having happened.
                state = "NAME" if line.startswith("NAME") else " ".join(_without_ages(line))
                if state not in seen:
                    seen.add(state)
                    print(line, flush=True)
                if until in " ".join(line.split()):
                    return line
            time.sleep(0.5)
        raise DemoError(f"no line with {until!r} within {timeout:.0f} s: {command}")

    def wait_for(self, command: str, *, timeout: float) -> None:
        """Repeats a command unseen until it prints something. Raises DemoError when it never does."""
        deadline = time.monotonic() + timeout
        while not self.ask(command):
            if time.monotonic() > deadline:
                raise DemoError(f"nothing within {timeout:.0f} s: {command}")
            time.sleep(0.5)

    @contextmanager
    def background(self, command: str, *, ready: str = "") -> Iterator[subprocess.Popen[str]]:
        """Shows a command and keeps it running; waits for a first line that holds `ready`, and stops it by its id."""
        print(f"{BOLD}$ {command} &{RESET}", flush=True)
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"exec {command}"], env=self._environment, stdout=subprocess.PIPE, text=True
        )
        try:
            if ready and process.stdout is not None and ready not in (line := process.stdout.readline()):
                raise DemoError(f"{command}: said {line!r}, not {ready!r}")
            yield process
        finally:
            process.terminate()
            process.wait(timeout=10)
