"""The folder of one cluster's state: marked as ours, because `down` removes it with all that is in it."""

from __future__ import annotations

import os
import shutil

from cluster.errors import ClusterError
from cluster.settings import Settings

MARKER = "embedded-cluster"


def ensure(settings: Settings) -> None:
    """Make the folder; raises ClusterError when somebody else's files are there."""
    settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not any(settings.state.iterdir()):
        (settings.state / MARKER).write_text(
            "The state of an embedded cluster; `python3 -m cluster down` removes it.\n"
        )
    require_ours(settings)


def remove(settings: Settings) -> None:
    """Remove the folder. It goes from its place at once, so that nobody who reads it can write into it meanwhile."""
    for left in settings.state.parent.glob(f".{settings.state.name}.removed-*"):
        shutil.rmtree(left)
    away = settings.state.with_name(f".{settings.state.name}.removed-{os.getpid()}")
    settings.state.rename(away)
    shutil.rmtree(away)


def require_ours(settings: Settings) -> None:
    """Raise ClusterError when the folder exists and was not made by `ensure`."""
    if settings.state.exists() and not (settings.state / MARKER).exists():
        raise ClusterError(
            f"{settings.state} is not a cluster's state folder: set LLMSERVICE_CLUSTER_STATE to a new or an empty one"
        )
