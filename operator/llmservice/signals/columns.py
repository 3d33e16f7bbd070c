"""From a window's signals to the figures of the columns, rounded as they are shown. Pure. Missing is not zero."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from llmservice.api.status import SignalsStatus
from llmservice.tuning.measured import Signals


def columns(signals: Signals, source: str, moment: datetime) -> SignalsStatus:
    """The figures over all replicas; what is not known, or too old, is left out."""
    depth, tokens = signals.queue_depth.known, signals.generated.known
    first_token = signals.time_to_first_token.p99.known
    return SignalsStatus(
        queue_depth=None if depth is None else round(depth),
        time_to_first_token_p99=None
        if first_token is None
        else timedelta(milliseconds=round_to(first_token * 1000, 2)),
        tokens_per_second=None if tokens is None else round_to(tokens, 2),
        source=source,
        observed_at=moment,
    )


def round_to(value: float, digits: int) -> float:
    """`value` with that many significant digits, so that noise does not become a write."""
    if value == 0:
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
