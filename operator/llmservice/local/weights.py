"""Brings the weights into this user's cache: the pod's weights step, run here, with its progress in words."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from llmservice.api.model import HostPathSource, ModelSource
from llmservice.local.errors import LocalError
from llmservice.repository.sources import SHARED_LIBRARY, code_root

KEY_LENGTH: Final = 10
MEGA: Final = 1e6


def weights_folder(source: ModelSource, cache: Path) -> Path:
    """The folder of the cache for `source`: a readable name, and a key so that another source never meets its files."""
    named = "-".join(_words(source.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", named).strip("-.")[:60]
    return cache / "models" / f"{readable}-{source.key[:KEY_LENGTH]}"


async def bring_weights(
    source: ModelSource, folder: Path, tell: Callable[[str], None], folders: tuple[str, ...] = ()
) -> None:
    """Fills `folder` from `source` unless it is there, with `folders` below the source's top one.

    `tell` gets each step in words. Raises LocalError.

    Cancelled, it ends the step; what is downloaded stays, and the next run goes on from there.
    """
    for kind, there in (("pvc", source.pvc), ("oci", source.oci)):
        if there is not None:
            raise LocalError(
                f"spec.model.source.{kind}: only a cluster mounts it; here write huggingFace, hostPath or package"
            )
    folder.parent.mkdir(parents=True, exist_ok=True)
    if source.is_converted:
        fetched = folder.with_name(f"{folder.name}.gguf")
        await _run(_program(source, folder, folders), source, fetched, tell)
        source = ModelSource(host_path=HostPathSource(path=str(fetched)))
    await _run(_program(source, folder, folders), source, folder, tell)


async def _run(program: list[str], source: ModelSource, target: Path, tell: Callable[[str], None]) -> None:
    process = await asyncio.create_subprocess_exec(
        *program, "--source", source.text, "--target", str(target),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is ours to handle
    )  # fmt: skip
    last = ""
    try:
        assert process.stdout is not None  # noqa: S101 - asked for above
        async for line in process.stdout:
            last = line.decode(errors="replace").strip() or last
            if words := progress_in_words(last):
                tell(words)
        code = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code != 0:
        raise LocalError(f"the weights could not be brought: {_fields(last).get('message') or last or f'exit {code}'}")


def _program(source: ModelSource, folder: Path, folders: tuple[str, ...]) -> list[str]:
    """The pod's own program for this source; hubs and buckets share a cache beside the folders of models."""
    if not source.is_fetched:
        return [sys.executable, str(code_root() / SHARED_LIBRARY / "weights.py")]
    call = "from llmservice.cli.main import main; main()"
    further = [f"--folder={name}" for name in folders]
    return [sys.executable, "-c", call, "weights", "fetch", "--cache", str(folder.parent.parent / "weights"), *further]


def progress_in_words(line: str) -> str:
    """One progress line, `download: 45 % of 2700 MB, 85 MB/s, 20 s left`; empty for the last and for other text."""
    fields = _fields(line)
    phase = fields.get("phase")
    if not isinstance(phase, str) or phase in ("done", "failed"):
        return ""
    percent, done, total = fields.get("percent"), fields.get("bytes"), fields.get("total_bytes")
    speed, left = fields.get("bytes_per_second"), fields.get("eta_seconds")
    parts = []
    if percent is not None and total:
        parts.append(f"{percent:.0f} % of {total / MEGA:.0f} MB")
    elif done:
        parts.append(f"{done / MEGA:.0f} MB")
    if speed:
        parts.append(f"{speed / MEGA:.0f} MB/s")
    if left is not None and percent != 100:
        parts.append(f"{left:.0f} s left")
    return f"{phase}: {', '.join(parts)}" if parts else phase


def _words(value: Any) -> list[str]:
    return [word for part in value.values() for word in _words(part)] if isinstance(value, dict) else [str(value)]


def _fields(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}
