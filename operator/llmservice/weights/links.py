"""Puts a model of the cache where the engine looks for it: one link a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

HIDDEN: Final = "."


def link(files: Path, target: Path) -> None:
    """Makes `target` a folder of links to what is in `files`; links of an earlier model go. Raises OSError."""
    target.mkdir(parents=True, exist_ok=True)
    wanted = {path.name: path for path in files.iterdir()}
    for stray in target.iterdir():
        if stray.is_symlink() and stray.name not in wanted:
            stray.unlink()
    for name, path in wanted.items():
        made = target / f"{HIDDEN}{name}.new"
        made.unlink(missing_ok=True)
        made.symlink_to(path.absolute())
        made.replace(target / name)
