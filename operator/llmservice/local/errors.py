"""What keeps a service from running on this host."""

from __future__ import annotations


class LocalError(RuntimeError):
    """The service cannot run here; the message is for a person: what is wrong, and what to do."""
