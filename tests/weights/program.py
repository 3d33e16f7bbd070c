"""The weights step as a pod runs it: a process of its own, with a termination log."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LLMSERVICE = Path(sys.executable).with_name("llmservice")


@dataclass
class Program:
    """Runs `llmservice weights fetch` for one source into one cache."""

    source: Mapping[str, Any]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def cache(self) -> Path:
        """The cache's folder."""
        return self.folder / "cache"

    @property
    def target(self) -> Path:
        """Where the engine would look."""
        return self.folder / "models"

    async def start(self) -> asyncio.subprocess.Process:
        """Starts it."""
        return await asyncio.create_subprocess_exec(
            str(LLMSERVICE), "weights", "fetch", "--source", json.dumps(self.source),
            "--cache", str(self.cache), "--target", str(self.target), *self.options,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | dict(self.environment),
        )  # fmt: skip

    async def run(self) -> tuple[int, list[dict[str, Any]]]:
        """(exit code, lines of progress)."""
        process = await self.start()
        out, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, [json.loads(line) for line in out.decode().splitlines()]

    def seen(self) -> dict[str, bytes]:
        """What the engine would read."""
        return {path.name: path.read_bytes() for path in self.target.iterdir() if not path.name.startswith(".")}
