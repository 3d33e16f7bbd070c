"""`llmservice run` as a person starts it: a process of its own whose lines are read."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.serving.eventually import eventually

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Run:
    """A running command; `temporary` is its folder for temporary files, `output` what it wrote."""

    process: subprocess.Popen[bytes]
    output: Path
    temporary: Path

    def said(self) -> str:
        """Everything it wrote so far."""
        return self.output.read_text()

    async def says(self, text: str, within: float) -> None:
        """Returns when `text` was written. Fails with all that was, when that takes longer or the command ends."""

        def there() -> bool:
            return text in self.said() or self.process.poll() is not None

        await eventually(there, within, text)
        assert text in self.said(), self.said()

    def http_port(self) -> int:
        """The port in the line to copy."""
        found = re.search(r"curl -sN http://127\.0\.0\.1:(\d+)/v2/", self.said())
        assert found, self.said()
        return int(found[1])

    def openai_url(self) -> str:
        """The OpenAI endpoint in the line to copy."""
        found = re.search(r"curl -sN (http://127\.0\.0\.1:\d+/v1)/", self.said())
        assert found, self.said()
        return found[1]

    def processes(self) -> list[int]:
        """Processes that work on its files: tritonserver and its stubs."""
        return [int(folder.name) for folder in Path("/proc").iterdir() if self._works_here(folder)]

    def instances(self, model: str) -> list[int]:
        """Processes of the model's instances."""
        stubs = ((pid, Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")) for pid in self.processes())
        return [pid for pid, command in stubs if any(part.startswith(f"{model}_".encode()) for part in command)]

    def shared_memory(self) -> list[Path]:
        """What it has in shared memory: Triton's regions, sockets and tables of slots."""
        configs = [path.read_text() for path in self.temporary.glob("llmservice-*/repository/*/config.pbtxt")]
        runs = {found for text in configs for found in re.findall(r'"(/dev/shm/llmservice-[^/"]+)"', text)}
        return [*SHARED_MEMORY.glob(f"llmservice_triton_{self.http_port()}_*"), *map(Path, runs)]

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def _works_here(self, folder: Path) -> bool:
        if not folder.name.isdigit() or int(folder.name) == self.process.pid:
            return False
        try:
            return str(self.temporary).encode() in (folder / "cmdline").read_bytes()
        except OSError:
            return False


def end(process: subprocess.Popen[bytes], within: float = 60.0) -> None:
    """Interrupts until the command has ended: the second Ctrl-C ends streams, and two at once may count as one."""
    deadline = time.monotonic() + within
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
    process.wait(timeout=1)


@contextmanager
def running(file: Path, folder: Path, *options: str) -> Iterator[Run]:
    """Starts `llmservice run -f file` with its output in `folder`; a command that is still there is killed."""
    temporary, output = folder / "temporary", folder / "output"
    temporary.mkdir()
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "llmservice.cli.main", "run", "-f", str(file), *options],
            env=os.environ | {"TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        run = Run(process, output, temporary)
        try:
            yield run
        finally:
            end(process)
