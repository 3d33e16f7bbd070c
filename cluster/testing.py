"""For the tests' fixtures: a kubeconfig of a cluster that may be used, brought up when it is not."""

from __future__ import annotations

import os
from pathlib import Path

from cluster import contexts, lifecycle
from cluster.lifecycle import Tier
from cluster.settings import Settings, from_environment


def kubeconfig(tier: Tier, folder: Path) -> Path:
    """A kubeconfig with one context.

    The embedded cluster's, brought up to the tier (a full one serves the API tier too); or, when the user has set
    LLMSERVICE_TEST_CONTEXT, that context's, copied into `folder`. Naming it there is the insisting: only a context
    that KUBECONFIG merely happens to point to is never used. Raises ClusterError.
    """
    settings = from_environment()
    context = contexts.chosen_by_user(os.environ)
    if context:
        contexts.check(settings, context, insist=True)
        return contexts.export(settings, context, folder / "kubeconfig")
    ensure_up(settings, tier)
    return settings.kubeconfig


def ensure_up(settings: Settings, tier: Tier) -> None:
    """Bring the embedded cluster up unless it is; leaves it up, for the next run to be quick."""
    if not lifecycle.is_up(settings, tier):
        lifecycle.up(settings, tier)
