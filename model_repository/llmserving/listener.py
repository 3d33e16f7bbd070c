"""Where an engine instance is found: its socket in the run directory, made anew when someone takes it away.

A run directory lies in `/dev/shm`, where cleaners of temporary files and people come by. Gates that are connected do
not notice; a gate that starts afterwards, as in every reload, would find no engine. So the engine looks whether its
socket file is still there, and its own.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

from llmserving.parameters import MeetingPlace

BACKLOG: Final = 250


class Listener:
    """Accepts gates for one instance: `accepted` is called with each connection, in a thread of the listener's own."""

    def __init__(self, place: MeetingPlace, instance: str, accepted: Callable[[socket.socket], None]) -> None:
        self._place = place
        self._instance = instance
        self._accepted = accepted
        self._lock = threading.Lock()
        self._hidden = False
        self._listen()

    def start(self) -> None:
        """Begins to accept."""
        self._accept_in_thread()

    def ensure(self) -> bool:
        """Listens anew when the socket file is gone or another's. Returns whether it was. Raises OSError."""
        with self._lock:
            if self._hidden or self._inode() == self._own_inode:
                return False
            stale = self._socket
            self._listen()
            self._accept_in_thread()
        _end(stale)
        return True

    def hide(self) -> None:
        """From now on nobody new finds the instance."""
        with self._lock:
            self._hidden = True
            if self._inode() == self._own_inode:
                self._place.socket(self._instance).unlink(missing_ok=True)

    def close(self) -> None:
        """Accepts nobody any more."""
        self.hide()
        _end(self._socket)

    def _listen(self) -> None:
        """The socket file appears only when it listens, so that a refused connection means a dead engine."""
        self._place.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._socket = socket.socket(socket.AF_UNIX)
        fresh = self._place.folder / f".{self._instance}.new"
        fresh.unlink(missing_ok=True)
        self._socket.bind(str(fresh))
        self._socket.listen(BACKLOG)
        fresh.chmod(0o600)
        fresh.rename(self._place.socket(self._instance))
        self._own_inode = self._inode()

    def _inode(self) -> tuple[int, int] | None:
        try:
            status = self._place.socket(self._instance).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _accept_in_thread(self) -> None:
        threading.Thread(target=self._accept, args=(self._socket,), name="accept", daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self._accepted(connection)


def _end(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()
