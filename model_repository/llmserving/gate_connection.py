"""The engine's end of one gate's connection: what the gate sent, and a way to answer that never blocks the engine."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

from llmserving.protocol import Add, Bye, Cancel, FrameReader, Message, ProtocolError, Step, encode

MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024


class GateConnection:
    """One gate, known by its number. `live` maps the gate's keys to the engine's.

    A thread reads; `received` is called in it with each message and with None once, at the end.
    """

    def __init__(
        self,
        number: int,
        serial: int,
        connection: socket.socket,
        received: Callable[[GateConnection, Add | Cancel | None], None],
    ) -> None:
        self.number = number
        self.serial = serial
        self.live: dict[int, int] = {}
        self.gone = False
        self.said_bye = False
        self._connection = connection
        self._received = received
        self._unsent = bytearray()

    def start(self, reader: FrameReader) -> None:
        """Starts to read."""
        threading.Thread(target=self._read, args=(reader,), name=f"gate-{self.number}", daemon=True).start()

    def send(self, step: Step) -> None:
        """Sends without waiting; what the socket does not take now goes with the next call or `flush`.

        A gate that does not read for so long that `MAX_UNSENT_BYTES` pile up is cut off.
        """
        if not self.gone:
            self._unsent += encode(step)
            self.flush()

    def flush(self) -> bool:
        """Sends what is left. Returns whether anything still is."""
        while self._unsent and not self.gone:
            try:
                sent = self._connection.send(self._unsent, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if len(self._unsent) > MAX_UNSENT_BYTES:
                    self.close()
                break
            except OSError:
                self.close()
                break
            del self._unsent[:sent]
        return bool(self._unsent) and not self.gone

    def close(self) -> None:
        """Ends the connection; the reading thread sees it and reports the end."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _read(self, reader: FrameReader) -> None:
        with self._connection:
            while (message := self._next(reader)) is not None:
                if isinstance(message, Bye):
                    self.said_bye = True
                if isinstance(message, Add | Cancel):
                    self._received(self, message)
            self._received(self, None)

    def _next(self, reader: FrameReader) -> Message | None:
        try:
            return reader.read()
        except ProtocolError:
            return None
