"""How the system's scheduler treats threads that only pass on what others compute."""

from __future__ import annotations

import contextlib
import os


def give_way() -> None:
    """Makes this thread, and all that it starts, wait until the running one's slice is over (`SCHED_BATCH`, sched(7)).

    An engine that computes on processors has a thread on each, and all of them wait for one that was interrupted in the
    middle of its part. A gate wakes twice for each token, and would take a processor each time. Where processors are
    idle, nothing changes. Needs no privilege; a system that refuses or knows no such policy is left as it is.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
