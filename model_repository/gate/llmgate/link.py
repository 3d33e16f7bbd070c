"""The gate's end of the connection to one engine instance."""

from __future__ import annotations

import contextlib
import socket
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Final

from llmgate.client import Fault
from llmgate.stream import Stream
from llmserving.engine import Output, Request
from llmserving.parameters import MeetingPlace
from llmserving.protocol import (
    Add,
    Bye,
    Cancel,
    FrameReader,
    Hello,
    ProtocolError,
    Step,
    Welcome,
    check_version,
    encode,
)
from llmserving.slots import Slots, Urgency

CONNECT_SECONDS: Final = 5.0


class EngineGoneError(RuntimeError):
    """The engine instance ended; nothing of what was to be sent reached it."""


class Link:
    """One engine instance: its slots, and the streams of this gate inside it.

    A thread of its own relays each step's tokens; it calls `freed` first when requests ended in that step. When the
    instance ends, it fails the streams that were inside at once and calls `ended`.
    """

    def __init__(
        self,
        place: MeetingPlace,
        instance: str,
        ended: Callable[[Link], None],
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        """Connects. Raises OSError and ProtocolError when the instance is dead or of another version."""
        self.instance = instance
        self._ended = ended
        self._freed = freed
        self._announced: Urgency | None = None
        self._lock = threading.Lock()
        self._live: dict[int, Stream] = {}
        self._gone = False
        self._connection = socket.socket(socket.AF_UNIX)
        try:
            self._connection.settimeout(CONNECT_SECONDS)
            self._connection.connect(str(place.socket(instance)))
            self._connection.sendall(encode(Hello()))
            reader = FrameReader(self._connection)
            welcome = reader.read()
            if not isinstance(welcome, Welcome):
                raise ProtocolError(f"engine instance {instance} did not answer")
            check_version(welcome.version)
            self.number = welcome.gate
            self.slots = Slots.open(place.slots(instance))
        except BaseException:
            self._connection.close()
            raise
        self._connection.settimeout(None)
        threading.Thread(target=self._relay, args=(reader,), name=f"relay-{instance}", daemon=True).start()

    def admit(self, admissions: Sequence[tuple[int, Request, Stream]]) -> None:
        """Sends requests, each with the slot it holds, as one message. Raises EngineGoneError."""
        with self._lock:
            if self._gone:
                raise EngineGoneError(self.instance)
            for _, request, stream in admissions:
                self._live[request.key] = stream
            try:
                self._connection.sendall(encode(Add(tuple((slot, request) for slot, request, _ in admissions))))
            except OSError as error:
                for _, request, _ in admissions:
                    del self._live[request.key]
                raise EngineGoneError(self.instance) from error

    def cancel(self, key: int) -> None:
        """Asks the engine to end a request; its last output ends the stream."""
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall(encode(Cancel((key,))))

    def announce(self, urgency: Urgency | None) -> None:
        """Tells other gates how urgent the first request of this gate's line is."""
        if urgency != self._announced:
            self._announced = urgency
            self.slots.wait(self.number, urgency)

    def streams(self) -> list[tuple[int, Stream]]:
        """Streams inside this instance, by key."""
        with self._lock:
            return list(self._live.items())

    @property
    def admitted(self) -> int:
        """Requests of this gate inside this instance."""
        return len(self._live)

    @property
    def gone(self) -> bool:
        """Whether the instance ended."""
        return self._gone

    def close(self) -> None:
        """Leaves the instance."""
        with contextlib.suppress(OSError):
            with self._lock:
                self._connection.sendall(encode(Bye()))
            self._connection.shutdown(socket.SHUT_RDWR)

    def _relay(self, reader: FrameReader) -> None:
        try:
            while isinstance(message := reader.read(), Step):
                if any(output.ends_request for output in message.outputs):
                    self._freed()
                for output in message.outputs:
                    self._pass_on(output)
        finally:
            self._end()

    def _pass_on(self, output: Output) -> None:
        stream = self._live.get(output.key)
        if stream is None:
            return
        if output.ends_request:
            del self._live[output.key]
        try:
            stream.take(output)
        except Exception:  # noqa: BLE001 -- one answer that cannot be sent must not end the streams of others
            traceback.print_exc()
            if self._live.pop(output.key, None) is not None:
                self.cancel(output.key)

    def _end(self) -> None:
        with self._lock:
            self._gone = True
            orphans = list(self._live.values())
            self._live.clear()
            self._connection.close()
        for stream in orphans:
            stream.fail(
                f"engine instance {self.instance} ended while it computed this request; send it again",
                Fault.UNAVAILABLE,
            )
        self._ended(self)
