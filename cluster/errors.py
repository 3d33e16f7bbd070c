"""The one error that people see: what is wrong, where, and what to do instead."""

from __future__ import annotations


class ClusterError(Exception):
    """A cause that the reader can act on; printed without a traceback."""
