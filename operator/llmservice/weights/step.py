"""The weights step as a program: from its arguments to its exit code, with its report."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from llmservice.api.model import ModelSource
from llmservice.weights.errors import ExitCode, WeightsError, cause_of
from llmservice.weights.fetch import CachePolicy, Fetched, fetch
from llmservice.weights.links import link
from llmservice.weights.origins import open_origin
from llmservice.weights.progress import Progress
from llmservice.weights.report import TERMINATION_LOG, model_facts, write_report


@dataclass(frozen=True)
class Step:
    """What the step is asked for: `source` is `spec.model.source` as JSON, `target` where the engine looks."""

    source: str
    cache: Path
    target: Path
    policy: CachePolicy
    report: Path = TERMINATION_LOG
    folders: tuple[str, ...] = ()
    """Folders below the top one of the source that the service needs too."""


def run(step: Step, environment: Mapping[str, str] | None = None, progress: Progress | None = None) -> ExitCode:
    """Runs the step; its last line on stdout, its report and the exit code all say how it ended."""
    progress = progress or Progress()
    try:
        fields = asyncio.run(_run(step, os.environ if environment is None else environment, progress))
    except WeightsError as error:
        return _failed(step, progress, error.code, str(error))
    except OSError as error:
        cause = cause_of(error, step.cache)
        return _failed(step, progress, cause.code, str(cause))
    except Exception as error:  # noqa: BLE001 -- a fault of ours: the trace is for us, one line is for the status
        traceback.print_exc()
        return _failed(step, progress, ExitCode.UNEXPECTED, f"{type(error).__name__}: {error}")
    progress.line({"phase": "done", "percent": 100.0, "path": str(step.target)})
    write_report(fields, step.report)
    return ExitCode.DONE


async def _run(step: Step, environment: Mapping[str, str], progress: Progress) -> dict[str, Any]:
    started = time.monotonic()
    source = _parse(step.source)
    async with open_origin(source, environment, step.folders) as origin:
        fetched = await fetch(origin, step.cache, step.policy, progress)
    link(fetched.entry.files, step.target)
    seconds = round(time.monotonic() - started, 1)
    return (
        {"source": source.key} | _fields(fetched, seconds) | await asyncio.to_thread(model_facts, fetched.entry.files)
    )


def _fields(fetched: Fetched, seconds: float) -> dict[str, Any]:
    said: dict[str, Any] = {
        "revision": fetched.revision,
        "bytes": fetched.size,
        "transferred": fetched.transferred,
        "seconds": seconds,
    }
    for name in ("repaired", "removed", "offline"):
        if value := getattr(fetched, name):
            said[name] = value if isinstance(value, str) else list(value)[:4]
    return said


def _parse(text: str) -> ModelSource:
    try:
        return ModelSource.model_validate(json.loads(text))
    except (ValidationError, ValueError) as error:
        raise WeightsError(ExitCode.INVALID_SOURCE, f"--source is no model source: {error}") from error


def _failed(step: Step, progress: Progress, code: ExitCode, message: str) -> ExitCode:
    progress.line({"phase": "failed", "reason": code.name, "message": message})
    print(f"weights: {message}", file=sys.stderr)  # noqa: T201 -- a command line's answer
    if step.report.exists():
        step.report.write_text(f"{code.name}: {message}"[:4000], encoding="utf-8")
    return code
