"""Drives one engine instance and lets the gates of its service in.

Threads: one accepts gates, one per gate reads, one drives the engine. The last owns every piece of state here; the
others only put what happened into its inbox.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from llmserving.engine import Engine, FinishReason, Output, Request
from llmserving.engine_metrics import EngineMetrics
from llmserving.gate_connection import GateConnection
from llmserving.listener import Listener
from llmserving.parameters import MeetingPlace
from llmserving.protocol import Add, Cancel, FrameReader, Hello, ProtocolError, Step, Welcome, check_version, encode
from llmserving.server_process import ServerProcess, listens
from llmserving.slot_setting import SlotSetting
from llmserving.slots import MAX_GATES, Slots

AUDIT_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 0.005
HELLO_SECONDS: Final = 5.0
EXIT_STATUS: Final = 70  # sysexits.h: EX_SOFTWARE


@dataclass(frozen=True)
class _Live:
    gate: GateConnection
    gate_key: int
    slot: int


def exit_process(error: BaseException) -> None:
    """Ends this process at once: after a failed step the state of engine and device is unknown."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(EXIT_STATUS)


class EngineServer:
    """One engine instance with `slots` slots until others are set, open to gates from `start` until `stop`.

    `failed` is called, after every request was answered with the error, when a step raises. `gate_died` is called
    when a gate's process ended without leaving.
    """

    def __init__(
        self,
        engine: Engine,
        place: MeetingPlace,
        slots: int,
        metrics: EngineMetrics | None = None,
        failed: Callable[[BaseException], None] = exit_process,
        gate_died: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instance = f"{os.getpid()}-{secrets.token_hex(3)}"
        self._engine = engine
        self._place = place
        self._metrics = metrics or EngineMetrics()
        self._failed = failed
        self._server = ServerProcess(place)
        self._gate_died = gate_died or self._server.end
        self._clock = clock
        self._wake = threading.Condition()
        self._inbox: deque[tuple[GateConnection, Add | Cancel | None]] = deque()
        self._gates: dict[int, GateConnection] = {}
        self._gates_lock = threading.Lock()
        self._serials = itertools.count(1)
        self._keys = itertools.count(1)
        self._live: dict[int, _Live] = {}
        self._draining = False
        self._next_audit = 0.0
        place.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_dead_instances(place)
        self._setting = SlotSetting(place, slots)
        self.slots = Slots.create(place.slots(self.instance), self._setting.in_force())
        self._listener = Listener(place, self.instance, self._accepted)
        self._loop = threading.Thread(target=self._drive, name="engine", daemon=True)

    def start(self) -> None:
        """Opens for gates and returns."""
        self._listener.start()
        self._setting.keep(self.slots)  # what was set between the table's making and its being found
        self._loop.start()

    def wake(self) -> None:
        """Says that the engine has work; an engine that computes by itself calls it from any thread."""
        with self._wake:
            self._wake.notify()

    def stop(self, timeout: float | None = None) -> bool:
        """Ends admission, finishes every sequence, closes the engine. Returns whether that was done in time."""
        self.slots.end_admission()  # first: a gate that finds no socket any more must see that this is no death
        self._listener.hide()
        with self._wake:
            self._draining = True
            self._wake.notify()
        self._loop.join(timeout)
        self._listener.close()
        for gate in list(self._gates.values()):
            gate.close()
        self._place.slots(self.instance).unlink(missing_ok=True)
        self._server.see_off()
        return not self._loop.is_alive()

    def slot_counts(self) -> dict[str, int]:
        """See `Controlled`."""
        return self._setting.counts()

    def set_slots(self, count: int) -> None:
        """See `Controlled`."""
        self._setting.set(count)

    def _accepted(self, connection: socket.socket) -> None:
        threading.Thread(target=self._welcome, args=(connection,), name="welcome", daemon=True).start()

    def _welcome(self, connection: socket.socket) -> None:
        connection.settimeout(HELLO_SECONDS)
        reader = FrameReader(connection)
        gate: GateConnection | None = None
        try:
            hello = reader.read()
            if not isinstance(hello, Hello):
                raise ProtocolError("a gate must say hello first")
            gate = self._enter(connection)
            # Answered before the version is checked: so the gate, too, can say what is wrong.
            connection.sendall(encode(Welcome(self.instance, gate.number)))
            check_version(hello.version)
        except (OSError, ProtocolError):
            connection.close()
            if gate is not None:
                gate.said_bye = True  # it never came in
                self._receive(gate, None)
            return
        connection.settimeout(None)
        gate.start(reader)

    def _enter(self, connection: socket.socket) -> GateConnection:
        with self._gates_lock:
            number = next((n for n in range(1, MAX_GATES + 1) if n not in self._gates), None)
            if number is None:
                raise ProtocolError(f"more than {MAX_GATES} gates")
            gate = GateConnection(number, next(self._serials), connection, self._receive)
            self._gates[number] = gate
        return gate

    def _receive(self, gate: GateConnection, message: Add | Cancel | None) -> None:
        with self._wake:
            self._inbox.append((gate, message))
            self._wake.notify()

    def _drive(self) -> None:
        try:
            while self._attend():
                if self._engine.has_work():
                    started = self._clock()
                    outputs = self._engine.step()
                    self._metrics.stepped(self._engine.status(), outputs, self._clock() - started)
                    self._deliver(outputs)
            self._engine.close()
        except BaseException as error:  # noqa: BLE001 -- whatever it was, the requests must not hang
            self._fail(error)

    def _attend(self) -> bool:
        """Handles the inbox, waiting for it when there is nothing to compute. Returns False when all is done."""
        unsent = self._flush()
        with self._wake:
            while not (self._inbox or self._engine.has_work()):
                if self._draining and not self._live and self.slots.held() == 0:
                    return False
                self._wake.wait(FLUSH_SECONDS if unsent or self._draining else AUDIT_SECONDS)
                unsent = self._flush()
                self._audit()
            events = list(self._inbox)
            self._inbox.clear()
        for gate, message in events:
            match message:
                case Add(admissions):
                    self._add(gate, admissions)
                case Cancel(keys):
                    for key in keys:
                        self._cancel(gate, key)
                case None:
                    self._leave(gate)
        self._audit()
        return True

    def _flush(self) -> bool:
        """Sends what gates did not take before, also those that got nothing in this step; whether any is left."""
        left = [gate.flush() for gate in list(self._gates.values())]
        return any(left)

    def _add(self, gate: GateConnection, admissions: tuple[tuple[int, Request], ...]) -> None:
        for slot, request in admissions:
            key = next(self._keys)
            self._live[key] = _Live(gate, request.key, slot)
            gate.live[request.key] = key
            batch = None if request.batch is None else (gate.serial << 32) | request.batch
            try:
                self._engine.add(replace(request, key=key, batch=batch))
            except Exception as error:  # noqa: BLE001 -- one bad request must not end the others
                traceback.print_exc()
                text = f"the engine refused the request: {error}"
                self._deliver([Output(key=key, finish_reason=FinishReason.ERROR, error=text)])
        if gate.gone:  # it came and left between two steps
            self._cancel_all(gate)

    def _cancel(self, gate: GateConnection, gate_key: int) -> None:
        key = gate.live.get(gate_key)
        if key is not None:
            self._engine.cancel(key)

    def _cancel_all(self, gate: GateConnection) -> None:
        for key in list(gate.live.values()):
            self._engine.cancel(key)

    def _leave(self, gate: GateConnection) -> None:
        """A gate's process ended: its sequences are cancelled, its slots come back as soon as they are out."""
        gate.gone = True
        self._cancel_all(gate)
        inside = frozenset(live.slot for live in self._live.values() if live.gate is gate)
        self.slots.recover(gate.number, keep=inside)
        self._forget_if_done(gate)
        if not (gate.said_bye or self._draining):
            self._gate_died(f"a gate process with {len(inside)} requests in engine instance {self.instance} died")

    def _forget_if_done(self, gate: GateConnection) -> None:
        if gate.gone and not gate.live:
            with self._gates_lock:
                self._gates.pop(gate.number, None)

    def _deliver(self, outputs: list[Output]) -> None:
        by_gate: dict[int, list[Output]] = {}
        for output in outputs:
            live = self._live.get(output.key)
            if live is None:
                continue
            if output.ends_request:
                del self._live[output.key]
                live.gate.live.pop(live.gate_key, None)
                self.slots.give(live.slot)
                self._forget_if_done(live.gate)
            if not live.gate.gone:
                by_gate.setdefault(live.gate.number, []).append(replace(output, key=live.gate_key))
        for number, answers in by_gate.items():
            self._gates[number].send(Step(tuple(answers)))

    def _audit(self) -> None:
        if self._clock() >= self._next_audit:
            self._be_found()
            self._next_audit = self._clock() + AUDIT_SECONDS

    def _be_found(self) -> None:
        """Publishes socket and table again when someone removed them: the next gate would find no engine."""
        if self._draining:
            return
        try:
            self.slots.republish()
            self._setting.keep(self.slots)
            if self._listener.ensure():
                print(  # noqa: T201
                    f"llmservice: engine instance {self.instance} listens anew: its socket in {self._place.folder} "
                    "was removed",
                    file=sys.stderr,
                    flush=True,
                )
        except OSError as error:
            self._server.end(f"engine instance {self.instance} cannot listen in {self._place.folder}: {error}")

    def _fail(self, error: BaseException) -> None:
        text = f"the engine failed: {type(error).__name__}: {error}"
        self._listener.hide()
        self._deliver([Output(key=key, finish_reason=FinishReason.ERROR, error=text) for key in list(self._live)])
        for gate in list(self._gates.values()):
            gate.close()
        self._place.slots(self.instance).unlink(missing_ok=True)
        self._failed(error)


def remove_dead_instances(place: MeetingPlace) -> None:
    """Removes what instances left behind that died: nobody listens at their socket."""
    for instance in place.instances():
        if not listens(place, instance):
            place.socket(instance).unlink(missing_ok=True)
            place.slots(instance).unlink(missing_ok=True)
