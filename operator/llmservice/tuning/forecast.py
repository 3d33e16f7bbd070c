"""The rate that must be served when what is asked for now will be ready: level, trend, and what forecasts missed by.

The trend is Holt's double exponential smoothing; the miss is split-conformal: a quantile of recent ratios between what
came and what had been foretold, so that nothing is assumed of their distribution (Vovk et al., 2005).
"""

from __future__ import annotations

from math import exp
from typing import Annotated, Final

from pydantic import Field

from llmservice.tuning.memory import Memory, newest

LEVEL_SECONDS: Final = 60.0
TREND_SECONDS: Final = 450.0
PEAK_SECONDS: Final = 900.0
"""Replicas only go by the highest forecast of so long, or of as long as must agree that fewer would do, if longer."""
MISSES_KEPT: Final = 720
NOTES: Final = 100
"""Forecasts noted in the time they are for, and in that of the highest: of more windows than that some are not noted,
so that none is dropped before it is due."""
KEPT: Final = 128
UP_QUANTILE: Final = 0.95
"""Share of forecasts that the margin must cover."""
LEAST_MISSES: Final = 30
"""Fewer say nothing of a quantile; until then `FIRST_MARGIN` stands in."""
FIRST_MARGIN: Final = 1.1
MOST_MARGIN: Final = 2.0
STEEPEST: Final = 1.0
"""Most growth by trend over any time, relative: a trend of a few windows is no reason to double."""


Rate = Annotated[float, Field(ge=0, le=1e9)]
"""Requests/s, as many as anybody could send."""


class Told(Memory):
    """A forecast made for `due`."""

    due: float
    rate: Rate


class Forecast(Memory):
    """What is remembered of the rate. Requests/s; `slope` per second of time."""

    at: float = 0.0
    level: Rate = 0.0
    slope: float = 0.0
    windows: int = 0
    told: Annotated[tuple[Told, ...], newest(KEPT)] = ()
    recent: Annotated[tuple[Told, ...], newest(KEPT)] = ()
    """Forecasts of the last while that no later one exceeds, `due` being when they were made."""
    misses: Annotated[tuple[Annotated[float, Field(ge=0)], ...], newest(MISSES_KEPT)] = ()


def learn_rate(memory: Forecast, rate: float, now: float, lead: float, reach: float = PEAK_SECONDS) -> Forecast:
    """`memory` after a window that ended at `now` with `rate`, and with the forecast for `now + lead` noted.

    The highest forecast is of the last `reach` seconds.
    """
    step = now - memory.at
    if memory.windows == 0 or step <= 0 or step > 10 * max(lead, LEVEL_SECONDS):
        # The first window, or one after so long a silence that the trend before it says nothing.
        level, slope = rate, 0.0
        memory = memory.model_copy(update={"told": ()})
    else:
        foreseen = memory.level + memory.slope * step
        level = foreseen + (1.0 - exp(-step / LEVEL_SECONDS)) * (rate - foreseen)
        slope = memory.slope + (1.0 - exp(-step / TREND_SECONDS)) * ((level - memory.level) / step - memory.slope)
    level = max(0.0, level)
    due = [one for one in memory.told if one.due <= now]
    misses = memory.misses
    if due and due[-1].rate > 0:
        misses = (*misses, rate / due[-1].rate)[-MISSES_KEPT:]
    new = memory.model_copy(
        update={"at": now, "level": level, "slope": slope, "windows": memory.windows + 1, "misses": misses}
    )
    waiting = tuple(one for one in memory.told if one.due > now)
    rate = foretell(new, lead)
    recent = tuple(one for one in memory.recent if now - reach < one.due < now and one.rate > rate)
    if not waiting or now + lead - waiting[-1].due >= lead / NOTES:
        waiting = (*waiting, Told(due=now + lead, rate=rate))
    if not recent or now - recent[-1].due >= reach / NOTES:
        recent = (*recent, Told(due=now, rate=rate))
    return new.model_copy(update={"told": waiting[-KEPT:], "recent": recent[-KEPT:]})


def highest(memory: Forecast) -> float:
    """The highest rate that was foretold lately."""
    return max((one.rate for one in memory.recent), default=0.0)


def foretell(memory: Forecast, lead: float) -> float:
    """The rate in `lead` seconds: never less than the level, since a fall that does not come costs objectives."""
    grown = memory.level + memory.slope * lead
    return min(max(memory.level, grown), (1.0 + STEEPEST) * memory.level)


def is_learnt(memory: Forecast) -> bool:
    """Whether enough forecasts came due to tell how far they miss."""
    return len(memory.misses) >= LEAST_MISSES


def margin(memory: Forecast) -> float:
    """By what factor a forecast must be raised to hold in the share `UP_QUANTILE` of cases; at least 1."""
    return _miss(memory) if is_learnt(memory) else FIRST_MARGIN


def doubt(memory: Forecast) -> float:
    """The margin where it is learnt, else the widest: what nobody knows yet is no reason for fewer replicas."""
    return _miss(memory) if is_learnt(memory) else MOST_MARGIN


def _miss(memory: Forecast) -> float:
    ordered = sorted(memory.misses)
    return min(MOST_MARGIN, max(1.0, ordered[min(len(ordered) - 1, int(UP_QUANTILE * (len(ordered) + 1)))]))
