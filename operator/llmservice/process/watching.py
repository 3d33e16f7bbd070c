"""Runs kopf in a thread of its own.

Embedded in the operator's own loop, kopf would replace its signal handlers and, at its end, cancel every task that was
started after it: passes in flight and the renewal of the Lease. In a thread it has a loop of its own to do so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import kopf

from llmservice.handlers import kopf_settings, routes
from llmservice.process.login import Login
from llmservice.reconcile.work_queue import Key


async def watch(wake: Callable[[Key], None], login: Login, namespaces: tuple[str, ...], stop: asyncio.Event) -> None:
    """Watches the cluster, or only `namespaces`, and wakes services until `stop` is set. Raises what ends it early."""
    loop = asyncio.get_running_loop()
    stop_kopf = threading.Event()  # a thread of kopf's loop waits for it, and the loop does not end before that thread

    def wake_from_thread(key: Key) -> None:
        loop.call_soon_threadsafe(wake, key)

    def run() -> None:
        operator = kopf.operator(
            registry=routes(wake_from_thread, login),
            settings=kopf_settings(),
            standalone=True,
            # Else kopf asks the system for the user's name, and a container's user id need not have one.
            identity="llmservice-operator",  # type: ignore[arg-type]  # kopf keeps the type to itself
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=stop_kopf,
        )
        asyncio.run(_releasing(stop_kopf, operator))

    thread = asyncio.create_task(asyncio.to_thread(run))
    stopper = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({thread, stopper}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop_kopf.set()
        stopper.cancel()
    await thread
    if not stop.is_set():
        raise RuntimeError("watching ended by itself")


async def _releasing(stop: threading.Event, operator: Coroutine[Any, Any, None]) -> None:
    """Runs kopf, and sets `stop` also where kopf fails by itself: else the process would lead on and hear nothing."""
    try:
        await operator
    finally:
        stop.set()
