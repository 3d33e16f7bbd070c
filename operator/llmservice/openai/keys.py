"""API keys in a folder, one a file, as a mounted Secret has them; changes of the Secret arrive while it serves."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

BEARER: Final = "bearer "
log = logging.getLogger(__name__)


class ApiKeys:
    """The keys in `folder`, each under the name of its file: the name is what metrics and logs tell of a client.

    A folder without keys lets nobody in: keys were asked for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._keys: Mapping[str, bytes] = {}
        self.reload()

    def reload(self) -> bool:
        """Reads the folder again; whether keys changed. A folder that cannot be read leaves the keys as they were."""
        try:
            read = dict(sorted(_read(self._folder).items()))
        except OSError as error:
            log.warning("API keys in %s: %s; the ones read before stay", self._folder, error.strerror or error)
            return False
        if read == self._keys:
            return False
        self._keys = read
        if not read:
            log.warning("no API key in %s: every request is refused", self._folder)
        return True

    def client(self, authorization: str) -> str | None:
        """Whose key an `Authorization` header carries; None for nobody's.

        Takes the same time whichever key it is and however much of it is right.
        """
        scheme, sent = authorization[: len(BEARER)], authorization[len(BEARER) :].strip()
        offered = sent.encode("utf-8", "surrogateescape") if scheme.lower() == BEARER else b""
        found = None
        for name, key in self._keys.items():
            if hmac.compare_digest(key, offered):
                found = name
        return found


def _read(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file())
    keys = {path.name: path.read_bytes().strip() for path in files}
    return {name: key for name, key in keys.items() if key}
