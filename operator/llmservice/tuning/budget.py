"""Reloads of gates and changes of engine instances share one hourly budget over all services of an operator. Pure.

Each is short trouble on some node, and what a fleet does at once is trouble everywhere. Nothing is stored for it: what
was spent stands in every service's own memory, so a new process counts the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from llmservice.tuning.guard import HOUR, Change
from llmservice.tuning.knob_moves import SHARED
from llmservice.tuning.measured import AT_ONCE, Turn

AN_HOUR: Final = 6
"""Changes that may begin within an hour. What is undone, or follows a canary, waits for nobody."""
A_SERVICE: Final = AN_HOUR // 2
"""Of these, the most that are one service's while there are others."""
PATIENCE: Final = 90.0
"""Seconds after which a service that did not ask again waits no more."""


@dataclass(frozen=True)
class Claim:
    """A service that waits for its turn: since when, and when it asked last."""

    since: float
    renewed: float


def spent(changes: Sequence[Change], now: float) -> tuple[float, ...]:
    """When a service's changes of the last hour were made, oldest first."""
    return tuple(sorted(one.at for one in changes if one.knob in SHARED and now - HOUR < one.at <= now))


def turn_of(
    service: tuple[str, str],
    made: Mapping[tuple[str, str], Sequence[float]],
    claims: Mapping[tuple[str, str], Claim],
    now: float,
) -> Turn:
    """The turn of `service`, from what each service spent within the hour and who else waits.

    Whoever spent less comes first, then who waits longer.
    """
    own = made.get(service, ())
    if len(made) > 1 and len(own) >= A_SERVICE:
        reason = f"it had {len(own)} changes within the hour, and other services share the {AN_HOUR} there are"
        return Turn(own[len(own) - A_SERVICE] + HOUR, reason)

    def rank(key: tuple[str, str]) -> tuple[int, float, tuple[str, str]]:
        return len(made.get(key, ())), claims[key].since if key in claims else now, key

    waiting = [key for key, claim in claims.items() if key != service and now - claim.renewed <= PATIENCE]
    ahead = sum(rank(key) < rank(service) for key in waiting)
    times = sorted(time for times in made.values() for time in times)
    over = len(times) + ahead - AN_HOUR
    if over < 0:
        return AT_ONCE
    reason = f"all services together had {len(times)} of {AN_HOUR} changes within the hour"
    if ahead:
        reason += f" and {ahead} {'waits' if ahead == 1 else 'wait'} that had fewer or asked before"
    return Turn(times[over] + HOUR if over < len(times) else now + HOUR, reason)
