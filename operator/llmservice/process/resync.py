"""Wakes every service now and then: the answer to whatever event was lost."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from llmservice.kube import resources
from llmservice.kube.client import KubeClient
from llmservice.kube.clock import Clock
from llmservice.kube.errors import KubeError, NotServed
from llmservice.reconcile.work_queue import Key

SPREAD: Final = 0.2
"""The part of a period over which the wake-ups of one round are spread."""

Wake = Callable[[Key, float], None]
log = logging.getLogger(__name__)


async def resync(
    client: KubeClient,
    wake: Wake,
    clock: Clock,
    stop: asyncio.Event,
    *,
    namespaces: tuple[str, ...] = (),
    seconds: float,
    draw: Callable[[], float] = random.random,
) -> None:
    """Every `seconds`, wakes all services, each at its own moment, until `stop` is set.

    Raises NotServed once the cluster does not know services any more.
    """
    while not stop.is_set():
        await clock.wait(stop, seconds * (1 - SPREAD * draw()))
        if stop.is_set():
            return
        try:
            for namespace in namespaces or (None,):
                for service in await client.list(resources.LLM_SERVICE, namespace):
                    wake(_key(service), seconds * SPREAD * draw())
        except NotServed:
            raise  # the CRD is gone, and kopf may not have noticed: the next start says what to do
        except KubeError as error:
            log.warning("resync left out: %s", error)


def _key(service: resources.Manifest) -> Key:
    return service["metadata"]["namespace"], service["metadata"]["name"]
