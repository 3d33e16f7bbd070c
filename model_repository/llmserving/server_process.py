"""The tritonserver that started this process, and how to end it when one of its model processes died.

Triton up to 2.73 never starts a dead Python model process again (python_backend `TRITONBACKEND_ModelInstanceExecute`:
"TODO: Implement restart"): the model stays ready, every request sent to it fails after a second, and the streams it
had never end. So whoever survives ends the server, and what runs the server starts it again: the kubelet, visibly, as
a restart of the container.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from llmserving.parameters import MeetingPlace
from llmserving.slots import Slots, SlotsError

QUIET_SECONDS: Final = 2.0
POLL_SECONDS: Final = 0.2


class ServerProcess:
    """The parent of this process at the time of making."""

    def __init__(self, place: MeetingPlace, kill: Callable[[int, int], None] = os.kill) -> None:
        self._place = place
        self._pid = os.getppid()
        self._kill = kill
        self._lock = threading.Lock()
        self._killer: threading.Thread | None = None

    def end(self, reason: str) -> None:
        """Asks the server to end: it takes no more requests and finishes those it has.

        Streams of a dead process never finish, so once nothing has been computed for `QUIET_SECONDS` it is killed.
        (Where it is process 1 of its namespace the kernel ignores that, and its own exit timeout ends the wait.)
        """
        with self._lock:
            if self._killer is not None:
                return
            print(f"llmservice: ending tritonserver: {reason}", file=sys.stderr, flush=True)  # noqa: T201
            self._signal(signal.SIGTERM)
            self._killer = threading.Thread(target=self._kill_when_quiet, name="server-end", daemon=True)
            self._killer.start()

    def see_off(self) -> None:
        """Where the server is being ended, returns only when that is done; a model's `finalize` calls it last.

        The server that was asked to end finalizes its models first. A process that left then would take with it the
        thread that kills a server which waits for the streams of a dead process.
        """
        with self._lock:
            killer = self._killer
        if killer is not None:
            killer.join()

    def _kill_when_quiet(self) -> None:
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_SECONDS and os.getppid() == self._pid:
            time.sleep(POLL_SECONDS)
            if held_slots(self._place):
                quiet_since = time.monotonic()
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if os.getppid() == self._pid:  # else the server is gone and its number may be another's
            with contextlib.suppress(ProcessLookupError):
                self._kill(self._pid, number)


def listens(place: MeetingPlace, instance: str) -> bool:
    """Whether an engine instance lives: one that was killed leaves its files, and nobody listens at its socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(place.socket(instance)))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            pass  # such as too many waiting for it, so somebody is there
        return True


def held_slots(place: MeetingPlace) -> int:
    """Slots held in all live engine instances of a service: nobody gives back what a dead one's table says is held."""
    held = 0
    for instance in filter(lambda name: listens(place, name), place.instances()):
        with contextlib.suppress(FileNotFoundError, SlotsError):
            slots = Slots.open(place.slots(instance))
            held += slots.held()
            slots.close()
    return held
