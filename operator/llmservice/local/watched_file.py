"""Tells when a file was edited."""

from __future__ import annotations

from pathlib import Path

Mark = tuple[int, int, int] | None


class WatchedFile:
    """Editors write in pieces or by renames, so an edit counts when two looks in a row find the same new state."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._seen = self._mark()

    def edited(self) -> bool:
        """Whether the file is another since the last edit that was told, and settled since the last look."""
        before, self._seen = self._seen, self._mark()
        if self._seen is None or self._seen != before or self._seen == self._known:
            return False
        self._known = self._seen
        return True

    def _mark(self) -> Mark:
        try:
            facts = self._path.stat()
        except OSError:
            return None
        return facts.st_ino, facts.st_size, facts.st_mtime_ns
