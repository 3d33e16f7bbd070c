"""A namespace's quota of a pool's accelerators, shared by all its services: who may have how many. Pure.

What a service has stays its own. What is left goes to those that ask for more, the oldest first; one that asks for
more than is left gets nothing, and younger ones that ask for less are not held up by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Claimant:
    """One service: accelerators that it asks for and that it holds, and when it was made (RFC 3339, sortable)."""

    name: str
    created: str
    asked: int
    held: int


@dataclass(frozen=True)
class Share:
    """What one service may have of `quota`. `others` are the services that hold some, most first."""

    quota: int
    allowed: int
    others: tuple[tuple[str, int], ...] = ()


def share_of(name: str, claimants: Iterable[Claimant], quota: int) -> Share:
    """The share of service `name`, which is among `claimants`; those that nobody asks for yet are in it too."""
    everyone = sorted(claimants, key=lambda one: (one.created, one.name))
    free = quota - sum(one.held for one in everyone)
    allowed = 0
    for one in everyone:
        more = max(0, one.asked - one.held)
        granted = more if more <= free else 0
        free -= granted
        if one.name == name:
            allowed = one.held + granted
    others = sorted(((one.name, one.held) for one in everyone if one.name != name and one.held), key=_most_first)
    return Share(quota, allowed + max(0, free), tuple(others))


def too_many(share: Share, asked: int, namespace: str, pool: str) -> str:
    """What a service that asks for more than its share is told; empty for any other."""
    if asked <= share.allowed:
        return ""
    shown = [f"{count} by {name}" for name, count in share.others[:MOST_NAMED]]
    more = share.others[MOST_NAMED:]
    if more:
        shown.append(f"{sum(count for _, count in more)} by {len(more)} more")
    taken = sum(count for _, count in share.others)
    has = f"{taken} of them are taken ({', '.join(shown)})" if taken else "none of them is taken by other services"
    return (
        f"namespace {namespace} may take {share.quota} accelerators of pool {pool}, {has}, and this service asks for "
        f"{asked}: {share.allowed} are left for it. Ask for fewer replicas, free some, or ask for a larger quota."
    )


MOST_NAMED = 5
"""Services that a message names one by one."""


def _most_first(held: tuple[str, int]) -> tuple[int, str]:
    return -held[1], held[0]
