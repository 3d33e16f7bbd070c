"""Live changes of one replica: another gate (delay, priorities, limits), other counts of engine instances and slots.

The first two are load calls with the operator's own text, slots are told to the engine. A call that Triton accepts is
not believed: configuration, readiness and, where nothing may be lost, statistics are read back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from llmservice.repository.proto import to_load_json
from llmservice.triton.client import TritonClient
from llmservice.triton.comparison import differing_fields, instances
from llmservice.triton.errors import TritonError
from llmservice.workload.revision import LIVE_PARAMETERS

_LIVE_FIELD: Final = "instance_group"
(SLOTS,) = LIVE_PARAMETERS


class Outcome(StrEnum):
    """What a live change came to."""

    UNCHANGED = "Unchanged"
    """The model already runs so; nothing was sent."""
    APPLIED = "Applied"
    """The model runs so now."""
    DEFERRED = "Deferred"
    """An older gate still serves its streams; nothing was sent. Ask again later."""


@dataclass(frozen=True)
class LiveChange:
    """One live change of one model: what came of it, in words too, and how long the load took."""

    model: str
    outcome: Outcome
    reason: str
    seconds: float = 0.0


class LiveChangeError(RuntimeError):
    """A live change that did not take. `still_serving` tells whether the model serves as it did before."""

    def __init__(self, model: str, message: str, *, still_serving: bool) -> None:
        state = "it serves as before" if still_serving else "it does not serve as before"
        super().__init__(f"live change of {model} failed: {message}; {state}")
        self.model = model
        self.message = message
        self.still_serving = still_serving


class GateReloader:
    """Reloads the gate of one replica, one reload at a time, and the next only when the old gate is gone.

    Triton keeps a replaced gate until its streams end, and does not tell; `old_gate_gone` answers from the series that
    the gate exports per process (`signals.scrape.Sample.gate_processes`). Without this rule every change under long
    streams would add a pair of processes.

    On tritonserver 2.51 a gRPC stream that its client cancels at the very moment of the last response can keep a model
    from ever being released (3 of 12 such cancels), so `old_gate_gone` has to stop believing in an old gate at last.
    """

    def __init__(
        self,
        client: TritonClient,
        old_gate_gone: Callable[[], Awaitable[bool]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._old_gate_gone = old_gate_gone
        self._clock = clock
        self._lock = asyncio.Lock()

    async def reload(self, config: Any) -> LiveChange:
        """Brings the gate to `config` (a whole `ModelConfig`). Raises LiveChangeError, or TritonError when unreachable.

        A gate that does not run, or whose count of instances would change, is loaded too: a full reload is safe,
        only a removal in place is not, and Triton does that when nothing but the count differs. So this is refused.
        """
        async with self._lock:
            running = await self._client.model_config(config.name)
            changed = differing_fields(config, running)
            if not changed:
                return LiveChange(config.name, Outcome.UNCHANGED, "the gate already runs so")
            if changed == (_LIVE_FIELD,):
                raise LiveChangeError(
                    config.name,
                    f"its count would change from {instances(running)} to {instances(config)} in place, which hangs "
                    "live streams; the gate's count is fixed",
                    still_serving=True,
                )
            if not await self._old_gate_gone():
                return LiveChange(config.name, Outcome.DEFERRED, "an older gate still serves its streams")
            seconds = await _load(self._client, config, running, self._clock)
            return LiveChange(config.name, Outcome.APPLIED, f"changed {', '.join(changed)}", seconds)


async def set_engine_instances(
    client: TritonClient, config: Any, count: int, clock: Callable[[], float] = time.monotonic
) -> LiveChange:
    """Brings the engine to `count` instances in place; `config` is its rendered `ModelConfig`, whatever count it names.

    Refused, with LiveChangeError, when anything but the instance group differs from what runs: Triton would load the
    weights a second time beside the first. Afterwards the statistics must still count from where they were; a reset
    shows that Triton reloaded all the same, and is an error.
    """
    wanted = type(config)()
    wanted.CopyFrom(config)
    for group in wanted.instance_group:
        group.count = count
    running = await client.model_config(wanted.name)
    _keep_live_parameters(wanted, running)
    changed = differing_fields(wanted, running)
    if not changed:
        return LiveChange(wanted.name, Outcome.UNCHANGED, f"{count} instances already run")
    if changed != (_LIVE_FIELD,):
        fields = ", ".join(field for field in changed if field != _LIVE_FIELD)
        raise LiveChangeError(
            wanted.name, f"{fields} differ too, which would load the weights again", still_serving=True
        )
    before = await client.statistics(wanted.name)
    seconds = await _load(client, wanted, running, clock)
    after = await client.statistics(wanted.name)
    if after.success.count < before.success.count or after.last_inference_ms < before.last_inference_ms:
        raise LiveChangeError(
            wanted.name,
            "Triton reloaded the model instead of changing it in place: its statistics began again",
            still_serving=False,
        )
    return LiveChange(
        wanted.name, Outcome.APPLIED, f"instances {instances(running)} → {instances(wanted)} in place", seconds
    )


async def set_slots(client: TritonClient, config: Any, clock: Callable[[], float] = time.monotonic) -> LiveChange:
    """Gives every engine instance the slots that `config`, the engine's rendered `ModelConfig`, names.

    Nothing is loaded: the engine is told, and keeps the count for instances that come later. Every instance's count is
    read back. Raises LiveChangeError.
    """
    wanted, started = int(config.parameters[SLOTS].string_value), clock()
    before = await _slots(client, config.name)
    if before and set(before.values()) == {wanted}:
        return LiveChange(config.name, Outcome.UNCHANGED, f"{wanted} slots already")
    try:
        after: dict[str, int] = (await client.control(config.name, slots=wanted))["slots"]
    except TritonError as error:
        raise LiveChangeError(config.name, error.message, still_serving=True) from error
    if set(after.values()) != {wanted}:
        told = (
            ", ".join(f"{instance} has {count}" for instance, count in sorted(after.items())) or "no instance answers"
        )
        raise LiveChangeError(config.name, f"{wanted} slots were set, but {told}", still_serving=True)
    counts = ", ".join(str(count) for count in sorted(set(before.values())))
    return LiveChange(config.name, Outcome.APPLIED, f"slots {counts} → {wanted}", clock() - started)


async def _slots(client: TritonClient, model: str) -> dict[str, int]:
    """Slots by engine instance. Raises LiveChangeError where the engine does not know of them."""
    try:
        slots: dict[str, int] = (await client.control(model))["slots"]
    except TritonError as error:
        raise LiveChangeError(model, error.message, still_serving=True) from error
    return slots


def _keep_live_parameters(wanted: Any, running: Any) -> None:
    """A count of slots is set without a load, so what a model was loaded with may be an older one."""
    if SLOTS in running.parameters and SLOTS in wanted.parameters:
        wanted.parameters[SLOTS].string_value = running.parameters[SLOTS].string_value


async def _load(client: TritonClient, config: Any, running: Any, clock: Callable[[], float]) -> float:
    """Loads and verifies; seconds the load took. Raises LiveChangeError."""
    started = clock()
    try:
        await client.load(config.name, to_load_json(config))
    except TritonError as error:
        serving = await _serves(client, config.name, running)
        raise LiveChangeError(config.name, error.message, still_serving=serving) from error
    seconds = clock() - started
    differing = differing_fields(config, await client.model_config(config.name))
    if differing:
        serving = await _serves(client, config.name, running)
        raise LiveChangeError(
            config.name, f"Triton took the call, but {', '.join(differing)} are not as sent", still_serving=serving
        )
    if not await client.ready(config.name):
        raise LiveChangeError(config.name, "the model is not ready after the load", still_serving=False)
    return seconds


async def _serves(client: TritonClient, model: str, config: Any) -> bool:
    """Whether `model` is ready with `config`; False when Triton cannot be asked any more."""
    try:
        return await client.ready(model) and not differing_fields(config, await client.model_config(model))
    except TritonError:
        return False
