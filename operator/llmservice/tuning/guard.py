"""What the guard remembers, and its rules about time: cooldowns, budgets, reversals, settings that failed."""

from __future__ import annotations

from typing import Annotated, Final

from llmservice.tuning.decision import Action, Knob, Scope
from llmservice.tuning.memory import Memory, newest
from llmservice.tuning.performance import Candidate

DAY: Final = 86400.0
HOUR: Final = 3600.0
DELAY_COOLDOWN: Final = 1800.0
IN_PLACE_COOLDOWN: Final = 60.0
LEAST_REPLICA_COOLDOWN: Final = 180.0
DELAY_CHANGES_A_DAY: Final = 2
"""Each is a reload of the gate, and reloads are what goes wrong in the field (server#8117, #5757)."""
LOCK_COOLDOWNS: Final = 4
"""A knob does not go back to where it was for so many cooldowns."""
LEAST_AGREED: Final = 2.5
MOST_AGREED: Final = 6.0
AGREED_BY_MISS: Final = 25.0
"""Fewer replicas must have been enough for as many cooldowns as this times what forecasts miss by, within those limits.
Choices of this tuner: a load that is foreseen within a tenth gives up what it does not need after two and a half, one
that surprises keeps it for six, since what goes then may be wanted back while it may not come."""
MOST_AGREED_SECONDS: Final = 2700.0
"""Nor for longer than this, unless `LEAST_AGREED` cooldowns are: over three quarters of an hour it is the course of the
day that a wait holds up, however long a cold start takes. What is enough follows the highest forecast of as long
(`learnt.learn`), so that up to twice this passes between a fall of the load and the first replica that goes."""
FREEZE: Final = HOUR
"""Nothing is tried for so long after something was undone."""
BAN: Final = DAY
KEPT: Final = 64


class Change(Memory):
    """A knob that was moved. Delays in seconds."""

    at: float
    knob: Knob
    old: float
    new: float


class Banned(Memory):
    """A setting that did worse than foretold, not to be tried again before `until`."""

    instances: int
    delay: float
    slots: int
    until: float


class Guard(Memory):
    """What is remembered of changes and of reasons to hold."""

    changes: Annotated[tuple[Change, ...], newest(KEPT)] = ()
    banned: Annotated[tuple[Banned, ...], newest(16)] = ()
    frozen_until: float = 0.0
    fewer_since: float | None = None
    """Since when fewer replicas would have been enough."""
    far_fewer_since: float | None = None
    """Likewise, by far."""
    barely_since: float | None = None
    """Since when fewer would have been just enough, with nothing to spare."""
    considered_at: float | None = None
    """When the count of replicas was last considered: nobody knows what would have been enough in a longer pause."""
    more_windows: int = 0
    """Windows in a row in which more replicas were needed."""
    zero_windows: int = 0
    untrusted_since: float | None = None


def recorded(guard: Guard, actions: tuple[Action, ...], now: float) -> Guard:
    """`guard` after `actions` were ordered at `now`.

    What a canary proved and the others follow is one change, begun with the canary and over when they have it. Whether
    fewer replicas would do is asked anew after any change of them.
    """
    changes = list(guard.changes)
    for one in actions:
        made = Change(at=now, knob=one.knob, old=one.old, new=one.new)
        last = last_change(guard, one.knob)
        if one.scope is Scope.PROMOTED and last is not None and (last.old, last.new) == (one.old, one.new):
            changes.remove(last)
        changes.append(made)
    if any(one.knob is Knob.REPLICAS for one in actions):
        guard = not_fewer(guard)
    return guard.model_copy(update={"changes": tuple(changes[-KEPT:])}) if actions else guard


def not_fewer(guard: Guard) -> Guard:
    """`guard` after a window that fewer replicas were not enough for: every wait for fewer begins anew."""
    return guard.model_copy(update={"fewer_since": None, "far_fewer_since": None, "barely_since": None})


def repaired(guard: Guard, now: float) -> Guard:
    """`guard` without what lies in the future: a clock that was set back must not lock knobs for ever."""
    return guard.model_copy(
        update={
            "changes": tuple(one for one in guard.changes if one.at <= now),
            "banned": tuple(one for one in guard.banned if now < one.until <= now + BAN),
            "frozen_until": min(guard.frozen_until, now + FREEZE),
            "fewer_since": None if guard.fewer_since is None else min(guard.fewer_since, now),
            "far_fewer_since": None if guard.far_fewer_since is None else min(guard.far_fewer_since, now),
            "barely_since": None if guard.barely_since is None else min(guard.barely_since, now),
            "considered_at": None if guard.considered_at is None else min(guard.considered_at, now),
            "untrusted_since": None if guard.untrusted_since is None else min(guard.untrusted_since, now),
        }
    )


def cooldown(knob: Knob, lead: float) -> float:
    """Seconds for which nothing but more replicas follows a change of `knob`."""
    if knob is Knob.DELAY:
        return DELAY_COOLDOWN
    return max(lead, LEAST_REPLICA_COOLDOWN) if knob is Knob.REPLICAS else IN_PLACE_COOLDOWN


def lock_seconds(lead: float) -> float:
    """Seconds for which replicas do not go back to where they were, but for what cannot wait."""
    return LOCK_COOLDOWNS * cooldown(Knob.REPLICAS, lead)


def agreed_seconds(lead: float, miss: float) -> float:
    """Seconds for which fewer replicas must have been enough before any goes.

    `lead`: seconds of a cold start; `miss`: the factor that forecasts miss by, 1 and more.
    """
    one = cooldown(Knob.REPLICAS, lead)
    most = max(LEAST_AGREED * one, min(MOST_AGREED * one, MOST_AGREED_SECONDS))
    return min(most, max(LEAST_AGREED, AGREED_BY_MISS * (miss - 1.0)) * one)


def went_and_came_back_until(guard: Guard, lead: float) -> float:
    """Until when replicas stay, some of which went and came back within `lock_seconds`: for as long again. 0: none."""
    went = came = 0.0
    for one in guard.changes:
        if one.knob is Knob.REPLICAS and one.new < one.old:
            went, came = one.at, 0.0
        elif one.knob is Knob.REPLICAS:
            came = one.at
    back = went > 0.0 and went < came < went + lock_seconds(lead)
    return came + lock_seconds(lead) if back else 0.0


def last_change(guard: Guard, *knobs: Knob) -> Change | None:
    """The newest change of any of `knobs` (of all, if none is named)."""
    return next((one for one in reversed(guard.changes) if not knobs or one.knob in knobs), None)


def free_at(guard: Guard, knob: Knob, lead: float) -> float:
    """When `knob` may move next, as far as time decides. 0: at once.

    Its own cooldown has to be over, and that of whatever moved last, so that an effect has one cause. A change of the
    delay holds up other knobs for as long as one in place would: its own cooldown is a budget, not its effect.
    """
    own = last_change(guard, knob)
    other = last_change(guard)
    times = [guard.frozen_until]
    if own is not None:
        times.append(own.at + cooldown(knob, lead))
    if other is not None and other.knob is not knob:
        effect = IN_PLACE_COOLDOWN if other.knob is Knob.DELAY else cooldown(other.knob, lead)
        times.append(other.at + effect)
    if knob is Knob.DELAY:
        reloads = [one.at for one in guard.changes if one.knob is Knob.DELAY]
        if len(reloads) >= DELAY_CHANGES_A_DAY:
            times.append(reloads[-DELAY_CHANGES_A_DAY] + DAY)
    return max(times)


def goes_back(guard: Guard, knob: Knob, new: float, now: float, lead: float) -> bool:
    """Whether moving `knob` to `new` would undo its last change before that had `LOCK_COOLDOWNS` to prove itself."""
    last = last_change(guard, knob)
    locked = LOCK_COOLDOWNS * max(cooldown(knob, lead), LEAST_REPLICA_COOLDOWN)
    if last is None or now >= last.at + locked:
        return False
    return (last.new - last.old) * (new - last.new) < 0


def is_banned(guard: Guard, candidate: Candidate) -> bool:
    """Whether a setting failed and its time is not over; see `repaired`."""
    return any(
        one.instances == candidate.instances
        and abs(one.delay - candidate.delay) < 1e-6
        and one.slots == candidate.slots
        for one in guard.banned
    )


def failed(guard: Guard, candidate: Candidate, now: float) -> Guard:
    """`guard` after `candidate` was undone."""
    ban = Banned(instances=candidate.instances, delay=candidate.delay, slots=candidate.slots, until=now + BAN)
    return guard.model_copy(update={"banned": (*guard.banned, ban)[-16:], "frozen_until": now + FREEZE})
