"""Brings live knobs to the pods of a revision: one of them may have knobs of its own."""

from __future__ import annotations

from dataclasses import replace

from llmservice.diagnose.pod import Pod
from llmservice.reconcile.intent import Intent
from llmservice.reconcile.live import LiveChanges, LiveResult


async def bring(live: LiveChanges, service: str, pods: tuple[Pod, ...], intent: Intent, token: str) -> LiveResult:
    """Makes every pod run with the knobs in force, then the one on trial with its own.

    Nothing is tried while any other pod does not run as it should: then there is nothing to compare with.
    """
    tried = intent.tried
    name = tried.canary.pod if tried else ""
    result = await live.ensure(
        service, tuple(pod for pod in pods if pod.name != name), intent.workload.repository, token
    )
    canary = tuple(pod for pod in pods if pod.name == name)
    if tried is None or not canary or result.failure or result.waiting:
        return result
    own = await live.ensure(service, canary, tried.repository, token)
    return replace(own, changes=(*result.changes, *own.changes))
