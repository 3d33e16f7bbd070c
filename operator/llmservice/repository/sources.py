"""Where the code of gate and engines comes from: the installed package, or the checkout it runs from."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from llmservice.repository.errors import CodeNotFoundError
from llmservice.repository.topology import LIBRARY_CODE

SHARED_LIBRARY: Final = "llmserving"
_PACKAGED: Final = "_model_repository"
_CHECKOUT: Final = "model_repository"
_SKIPPED_FOLDERS: Final = frozenset({"__pycache__", "tests"})
_SKIPPED_SUFFIXES: Final = frozenset({".pyc", ".pyo"})


def code_root() -> Path:
    """The folder with `gate/`, `torch/`, … and `llmserving/`. Raises CodeNotFoundError where there is none."""
    package = Path(str(resources.files("llmservice")))
    candidates = (package / _PACKAGED, package.parent.parent / _CHECKOUT)
    for candidate in candidates:
        if (candidate / SHARED_LIBRARY).is_dir():
            return candidate
    raise CodeNotFoundError(
        f"the code of gate and engines is in neither {candidates[0]} nor {candidates[1]}: reinstall llmservice"
    )


def code_files(code: str, root: Path | None = None) -> Mapping[str, Path]:
    """The files of a model's version folder: path inside it → source file.

    They are those of `<root>/<code>/` and, below `llmserving/`, the library that every model shares; none for an empty
    `code`, and the library alone for `LIBRARY_CODE`.
    Raises CodeNotFoundError, which names what there is, for a `code` without files.
    """
    root = root or code_root()
    if not code:
        return {}
    if code == LIBRARY_CODE:
        return {f"{SHARED_LIBRARY}/{path}": source for path, source in _tree(root / SHARED_LIBRARY).items()}
    if not (root / code / "model.py").is_file():
        known = ", ".join(sorted(path.parent.name for path in root.glob("*/model.py"))) or "none"
        raise CodeNotFoundError(f"no code for {code!r} in {root}: this version of the operator brings {known}")
    files = _tree(root / code)
    files.update({f"{SHARED_LIBRARY}/{path}": source for path, source in _tree(root / SHARED_LIBRARY).items()})
    return dict(sorted(files.items()))


def _tree(folder: Path) -> dict[str, Path]:
    """Every file below `folder` that Triton needs, by its path relative to it."""
    return {
        source.relative_to(folder).as_posix(): source
        for source in sorted(folder.rglob("*"))
        if source.is_file()
        and source.suffix not in _SKIPPED_SUFFIXES
        and not _SKIPPED_FOLDERS.intersection(source.relative_to(folder).parts)
    }
