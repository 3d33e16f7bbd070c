"""`llmservice weights fetch`: the init container that brings a model from a hub or a bucket."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

weights_app = typer.Typer(help="The weights inside a pod.", no_args_is_help=True)


class VerifyFiles(StrEnum):
    """When cached files are compared with their checksums."""

    CHANGED = "Changed"
    ALWAYS = "Always"


@weights_app.callback()
def _group() -> None:
    """The weights inside a pod."""


@weights_app.command("fetch")
def weights_fetch(
    source: Annotated[str, typer.Option(help="spec.model.source as JSON: huggingFace, s3 or gcs.")],
    cache: Annotated[Path, typer.Option(help="Folder that keeps models, which pods may share.")],
    target: Annotated[Path, typer.Option(help="Folder that gets links to the model's files.")],
    pod: Annotated[str | None, typer.Option(help="Uid of the pod, whose lease keeps the model in the cache.")] = None,
    size_limit: Annotated[int | None, typer.Option(min=1, help="Bytes that all models of the cache may take.")] = None,
    folder: Annotated[list[str] | None, typer.Option(help="A folder below the source's top one, too.")] = None,
    verify: Annotated[VerifyFiles, typer.Option(help="When cached files are read and compared.")] = VerifyFiles.CHANGED,
) -> None:
    """Bring a model from a hub or a bucket, with progress as JSON lines; the exit code names what went wrong."""
    from llmservice.weights.entry import Verify
    from llmservice.weights.fetch import CachePolicy
    from llmservice.weights.step import Step, run

    policy = CachePolicy(size_limit, Verify(verify.value), pod)
    code = run(Step(source, cache, target, policy, folders=tuple(folder or ())))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of the object store's client may still call into an interpreter that ends, and abort it
