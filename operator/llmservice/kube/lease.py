"""Leadership by a Lease: of several processes one leads, and it knows when it no longer may.

The protocol is that of client-go's leader election. Clocks of other machines are not trusted: a follower notes when
it saw the Lease change, by its own monotonic clock, and takes it over when it has not changed for a whole lease
duration. A leader renews well before that and stops leading by its own clock when it could not renew in time. Every
write names the resource version it saw, so of two takers one wins.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from llmservice.kube.client import KubeClient
from llmservice.kube.clock import Clock, SystemClock, micro_timestamp, sleep
from llmservice.kube.errors import Conflict, KubeError
from llmservice.kube.resources import LEASE, Manifest

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds: how long a Lease holds unrenewed, how long a leader tries to renew, how often anyone tries."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period > 0:
            msg = (
                f"lease times {self.duration}/{self.renew_deadline}/{self.retry_period} s: write a lease duration "
                "longer than the renew deadline, and that longer than the retry period"
            )
            raise ValueError(msg)


@dataclass(frozen=True)
class _Seen:
    """The Lease as last read, and when by our own clock it last changed."""

    lease: Manifest
    at: float

    @property
    def mark(self) -> tuple[object, object, object]:
        spec = _spec(self.lease)
        return spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions")


class Elector:
    """One candidate. `run` leads and follows until cancelled or until leadership is lost."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._namespace, self._name, self.identity = namespace, name, identity
        self._times = times or LeaseTimes()
        self._clock = clock or SystemClock()
        self._seen: _Seen | None = None
        self._renewed_at: float | None = None
        self.leading = asyncio.Event()
        """Set while this process leads."""

    @property
    def is_leader(self) -> bool:
        """Whether this process may write right now: it leads and its last renewal is recent enough.

        Ask before each batch of writes: this turns False by the clock alone, whatever else in the process is late.
        """
        if self._renewed_at is None:
            return False
        return self._clock.monotonic() - self._renewed_at < self._times.renew_deadline

    @property
    def leader(self) -> str:
        """The identity that holds the Lease as last seen, empty when none does."""
        return str(_spec(self._seen.lease).get("holderIdentity") or "") if self._seen else ""

    async def run(self) -> None:
        """Wait for the Lease, lead, return once leadership is lost. On cancellation the Lease is given back."""
        try:
            while not await self._try():
                await sleep(self._clock, self._times.retry_period)
            self.leading.set()
            _log.info("leading", extra={"lease": self._name, "identity": self.identity})
            while self.is_leader:
                await sleep(self._clock, self._times.retry_period)
                await self._try()
                if self.leader != self.identity:
                    break
        except asyncio.CancelledError:
            await asyncio.shield(self.release())
            raise
        self._lose()

    async def release(self) -> None:
        """Give the Lease back so that another candidate takes it at once. Harmless when it is not ours.

        Stop writing first: from here on another process may lead.
        """
        ours = self._renewed_at is not None
        self._renewed_at = None
        self.leading.clear()
        if not ours:
            return
        try:
            async with asyncio.timeout(self._times.retry_period):
                lease = await self._client.get(LEASE, self._namespace, self._name)
                if lease is not None and _spec(lease).get("holderIdentity") == self.identity:
                    await self._write(lease, holder="", duration=1)
        except (KubeError, TimeoutError) as error:
            _log.warning("lease not released: %s", _cause(error), extra={"lease": self._name})

    def _lose(self) -> None:
        self._renewed_at = None
        self.leading.clear()
        _log.warning("leadership lost", extra={"lease": self._name, "leader": self.leader})

    async def _try(self) -> bool:
        """One attempt to take or to renew the Lease; whether it is ours now."""
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._patience()):
                held = await self._take_or_renew()
        except (KubeError, TimeoutError) as error:
            _log.warning("lease attempt failed: %s", _cause(error), extra={"lease": self._name})
            return False
        if held:
            # From the start of the attempt: others count from when the write became visible, which is later.
            self._renewed_at = started
        return held

    def _patience(self) -> float:
        """Seconds that an attempt may take: a leader has what is left of its renew deadline."""
        if self._renewed_at is None:
            return self._times.renew_deadline
        return max(0.0, self._renewed_at + self._times.renew_deadline - self._clock.monotonic())

    async def _take_or_renew(self) -> bool:
        lease = await self._client.get(LEASE, self._namespace, self._name)
        if lease is None:
            return await self._create()
        self._observe(lease)
        holder = _spec(lease).get("holderIdentity") or ""
        if holder not in ("", self.identity) and not self._expired():
            return False
        try:
            await self._write(lease, holder=self.identity, duration=self._times.duration)
        except Conflict:
            return False
        return True

    async def _create(self) -> bool:
        metadata = {"name": self._name, "namespace": self._namespace}
        empty = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": {}}
        try:
            self._observe(await self._client.create(self._claimed(empty, self.identity, self._times.duration)))
        except Conflict:
            return False
        return True

    async def _write(self, lease: Manifest, *, holder: str, duration: float) -> None:
        self._observe(await self._client.replace(self._claimed(lease, holder, duration)))

    def _claimed(self, lease: Manifest, holder: str, duration: float) -> Manifest:
        now = micro_timestamp(self._clock.now())
        spec = dict(_spec(lease))
        if spec.get("holderIdentity") != holder:
            spec["acquireTime"] = now
            if holder:
                spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + ("holderIdentity" in spec)
        spec |= {"holderIdentity": holder, "leaseDurationSeconds": max(1, round(duration)), "renewTime": now}
        return {**lease, "spec": spec}

    def _observe(self, lease: Manifest) -> None:
        fresh = _Seen(lease, self._clock.monotonic())
        if self._seen is not None and self._seen.mark == fresh.mark:
            fresh = _Seen(lease, self._seen.at)
        self._seen = fresh

    def _expired(self) -> bool:
        """Whether the Lease has not moved for as long as its holder promised to keep it moving."""
        if self._seen is None:
            return False
        promised = float(_spec(self._seen.lease).get("leaseDurationSeconds") or self._times.duration)
        return self._clock.monotonic() - self._seen.at >= promised


def _spec(lease: Manifest) -> Manifest:
    """What the Lease says; nothing, where somebody made one without a spec."""
    return lease.get("spec") or {}


def _cause(error: KubeError | TimeoutError) -> str:
    """The error in words; a time limit has none of its own."""
    return str(error) or "the API server did not answer in time"
