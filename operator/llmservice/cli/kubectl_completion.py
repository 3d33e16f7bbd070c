"""Completion of `kubectl llmservice …`: kubectl runs `kubectl_complete-llmservice` with the words typed so far.

The answer is one candidate a line, a tab and its help: the form that typer gives the fish shell. Last comes a directive
of cobra's, which kubectl is built with (https://github.com/spf13/cobra/blob/v1.9.1/completions.go,
`ShellCompDirective`): `:4` is "no file completion", `:0` leaves the shell its own way, which completes files.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Sequence

from llmservice.cli.main import app

_NO_FILES, _SHELLS_OWN = ":4", ":0"


def answer(words: Sequence[str]) -> list[str]:
    """The lines that answer `words`, the last of which is being typed (it may be empty)."""
    os.environ["_LLMSERVICE_COMPLETE"] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = " ".join(["llmservice", *map(shlex.quote, words[:-1]), *words[-1:]])
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        app(prog_name="llmservice")
    found = [line for line in said.getvalue().splitlines() if line.strip()]
    return [*found, _NO_FILES if found else _SHELLS_OWN]


def main() -> None:
    """Entry point of `kubectl_complete-llmservice`."""
    sys.stdout.write("\n".join(answer(sys.argv[1:])) + "\n")
