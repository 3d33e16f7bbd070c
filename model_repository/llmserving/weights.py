"""The weights step: `spec.model.source` -> a Hugging Face folder at the target, which every engine reads.

Runs as the init container `weights` (`python3 weights.py --source JSON --target DIR`) and in local mode (`prepare`).
A second run with the same source finds the folder ready. Files are made in `.partial` below the target and renamed into
place, the ready mark last; one run at a time holds the lock. The last line on stdout is JSON; the exit code is
`weight_progress.ExitCode`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Run as a file: the package is the folder above, and nothing may be written into a repository that Triton watches.
    sys.dont_write_bytecode = True
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from llmserving.weight_progress import ExitCode, Progress, WeightsError, cause_of
from llmserving.weight_report import report
from llmserving.weight_sources import locate

READY_MARK = ".weights.json"
TERMINATION_LOG = Path("/dev/termination-log")


def prepare(
    source: Mapping[str, object], target: Path, *, mount: Path | None = None, progress: Progress | None = None
) -> Path:
    """Brings the model to the folder `target` and returns it: config, tokenizer, safetensors in Hugging Face form.

    `source` is `spec.model.source` (camelCase keys). A folder source is not copied: the target gets links to its files.
    `mount` is where the volume of a pvc, oci or hostPath source is mounted. Raises `WeightsError`.
    """
    progress = progress or Progress()
    try:
        target.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            if not _is_ready(source, target):
                _fill(source, target, mount, progress)
    except OSError as error:
        raise cause_of(error, target) from error
    progress.finish(target)
    return target


def _converter() -> Callable[[Path, Path, Progress, int | None], None]:
    """The conversion of GGUF files, whose packages only they need."""
    try:
        from llmserving.gguf_folder import convert
    except ImportError as error:
        raise WeightsError(
            ExitCode.INVALID_SOURCE,
            f"a GGUF file is converted by Python packages of which the serving image lacks {error.name!r}: "
            "take an image that has gguf and tokenizers, or mount a folder with them by spec.template",
        ) from error
    return convert


def _fill(source: Mapping[str, object], target: Path, mount: Path | None, progress: Progress) -> None:
    work = target / ".partial"
    # Downloads survive a failed try and are resumed; what an earlier try of another source left is not.
    asked = work / "source.json"
    if work.exists() and (not asked.is_file() or asked.read_text(encoding="utf-8") != _text(source)):
        shutil.rmtree(work)
    work.mkdir(exist_ok=True)
    asked.write_text(_text(source), encoding="utf-8")
    found = locate(source, work, mount, progress)
    made = work / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    if found.suffix == ".gguf":
        _converter()(found, made, progress, shutil.disk_usage(made).free)
    else:
        for file in _files(found):
            place = made / file.relative_to(found)
            place.parent.mkdir(parents=True, exist_ok=True)
            if file.is_relative_to(work):
                file.rename(place)
            else:
                place.symlink_to(file.resolve())
    _remove_earlier(target)
    names = sorted(entry.name for entry in made.iterdir())
    for name in names:
        _remove(target / name)  # of a run that was killed in this loop
        (made / name).rename(target / name)
    shutil.rmtree(work)
    mark = json.dumps({"source": _text(source), "files": names})
    (target / f"{READY_MARK}.new").write_text(mark, encoding="utf-8")
    (target / f"{READY_MARK}.new").rename(target / READY_MARK)


def _remove_earlier(target: Path) -> None:
    """Removes what an earlier source left, and nothing else: the mark names it."""
    mark = _mark(target)
    (target / READY_MARK).unlink(missing_ok=True)
    for name in mark.get("files", []):
        _remove(target / name)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    hidden = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in hidden if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def _is_ready(source: Mapping[str, object], target: Path) -> bool:
    mark = _mark(target)
    return mark.get("source") == _text(source) and all((target / name).exists() for name in mark.get("files", []))


def _mark(target: Path) -> dict[str, Any]:
    path = target / READY_MARK
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _text(source: Mapping[str, object]) -> str:
    return json.dumps(source, sort_keys=True)


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Holds the target against a second run on the same volume; the kernel frees the lock of a killed run."""
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of the init container; returns its exit code."""
    parser = argparse.ArgumentParser(prog="weights", description="Brings a model's weights to a folder.")
    parser.add_argument("--source", required=True, help="spec.model.source as JSON")
    parser.add_argument("--target", required=True, type=Path, help="folder to fill")
    parser.add_argument("--mount", type=Path, help="where the volume of a pvc, oci or hostPath source is mounted")
    options = parser.parse_args(arguments)
    progress = Progress()
    try:
        prepare(_parse(options.source), options.target, mount=options.mount, progress=progress)
    except WeightsError as error:
        progress.fail(error)
        return _told(error.code, str(error))
    except Exception as error:  # noqa: BLE001 -- a fault of ours: the trace is for us, one line is for the status
        traceback.print_exc()
        return _told(ExitCode.UNEXPECTED, f"{type(error).__name__}: {error}")
    _leave(report(options.source, options.target))
    return ExitCode.DONE


def _leave(message: str) -> None:
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(message, encoding="utf-8")


def _told(code: ExitCode, message: str) -> ExitCode:
    print(f"weights: {message}", file=sys.stderr)  # noqa: T201 -- a command line's answer
    _leave(f"{code.name}: {message}")
    return code


def _parse(text: str) -> Mapping[str, object]:
    try:
        source = json.loads(text)
    except json.JSONDecodeError as error:
        raise WeightsError(ExitCode.INVALID_SOURCE, f"--source is not JSON: {error}") from error
    if not isinstance(source, dict):
        raise WeightsError(ExitCode.INVALID_SOURCE, "--source must be a JSON object")
    return source


if __name__ == "__main__":
    sys.exit(main())
