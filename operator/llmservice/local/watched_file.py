"""Tells when a file was edited or is gone."""

from __future__ import annotations

from pathlib import Path

Mark = tuple[int, int, int] | None


class WatchedFile:
    """Editors write in pieces or by renames, so an edit counts when two looks in a row find the same new state."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known = self._seen = self._mark()
        self._gone_looks = 0

    def edited(self) -> bool:
        """Whether the file is another since the last edit that was told, and settled since the last look."""
        before, self._seen = self._seen, self._mark()
        self._gone_looks = self._gone_looks + 1 if self._seen is None else 0
        if self._seen is None or self._seen != before or self._seen == self._known:
            return False
        self._known = self._seen
        return True

    def vanished(self) -> bool:
        """Whether the last look was the second in a row that found no file: true once each time it goes."""
        return self._gone_looks == 2

    def _mark(self) -> Mark:
        try:
            facts = self.path.stat()
        except OSError:
            return None
        return facts.st_ino, facts.st_size, facts.st_mtime_ns
