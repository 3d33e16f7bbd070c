"""Options and arguments that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class LogLevel(StrEnum):
    """How much the operator tells."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class OutputFormat(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


Files = Annotated[list[Path], typer.Argument(help="YAML files; - reads standard input.", show_default=False)]
Output = Annotated[OutputFormat, typer.Option("--output", help="text or json.")]
Fleet = Annotated[Path | None, typer.Option("--fleet", help="Fleet defaults (the chart's fleet.yaml).")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace; the context's when omitted.")]
Context = Annotated[str | None, typer.Option("--context", help="kubeconfig context.")]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="kubeconfig file.", envvar="KUBECONFIG")]
