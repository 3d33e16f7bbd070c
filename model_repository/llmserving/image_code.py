"""Copies the code of NVIDIA's own models from the serving image into the repository.

`python3 image_code.py --copy FROM:TO` runs as the init container `code`. A file that is right stays untouched, and an
empty file keeps byte code from being written beside the code, as in a repository of our own code.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

BYTE_CODE = "__pycache__"


def copy(source: Path, target: Path) -> int:
    """Copies the Python files below `source`; how many there are. Raises FileNotFoundError where there are none."""
    files = sorted(path for path in source.rglob("*.py") if path.is_file()) if source.is_dir() else []
    if not files:
        raise FileNotFoundError(
            f"{source} is not in this image: use one of NVIDIA's tritonserver:<yy.mm>-trtllm-python-py3 images"
        )
    for file in files:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_file() or place.read_bytes() != file.read_bytes():
            shutil.copyfile(file, place)
        blocker = place.parent / BYTE_CODE
        if not blocker.exists():
            blocker.touch()
    return len(files)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of the init container; returns its exit code."""
    parser = argparse.ArgumentParser(prog="image_code", description="Copies NVIDIA's model code into the repository.")
    parser.add_argument("--copy", action="append", required=True, metavar="FROM:TO")
    for pair in parser.parse_args(arguments).copy:
        source, _, target = pair.partition(":")
        try:
            sys.stdout.write(f"{copy(Path(source), Path(target))} files from {source}\n")
        except OSError as error:
            sys.stdout.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
