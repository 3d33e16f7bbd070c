"""Everything learnt of one service: step times, bursts, rate, cold starts, sizes of requests, what models miss by."""

from __future__ import annotations

from math import exp
from typing import Annotated, Final

from pydantic import Field

from llmservice.tuning.burst import Burst, learn_burst
from llmservice.tuning.forecast import PEAK_SECONDS, Forecast, doubt, learn_rate
from llmservice.tuning.guard import agreed_seconds
from llmservice.tuning.lead_time import LeadTime, lead_seconds, learn_starts
from llmservice.tuning.measured import Measured, Signals
from llmservice.tuning.memory import Memory, newest
from llmservice.tuning.service_time import ServiceTime
from llmservice.tuning.settings import Settings
from llmservice.tuning.step_times import Busy, StepTimes, gains_of, learn_requests, learn_steps, service_time_of
from llmservice.tuning.tail import Correction
from llmservice.tuning.token_times import TokenSums, TokenTimes, learn_tokens, token_times_of

SIZE_SECONDS: Final = 600.0
"""Over which mean lengths of requests are averaged."""
SAME: Final = 0.03
"""Relative difference of service times below which the model that was simulated last still stands."""
LEAST_WINDOW: Final = 1.0


class Used(Memory):
    """The service times the model in use was made of, kept until what is learnt differs."""

    lines: Annotated[tuple[tuple[float, float], ...], Field(min_length=1)]
    gains: tuple[float, ...] = ()
    largest_seen: float = 0.0
    identified: bool = True
    exact: bool = True

    @property
    def service_time(self) -> ServiceTime:
        """As a service time."""
        return ServiceTime(self.lines, self.largest_seen, self.identified, self.exact)


class Learnt(Memory):
    """What is remembered of a service, whatever its knobs are."""

    model_key: str = ""
    steps: StepTimes = StepTimes()
    tokens: TokenSums = TokenSums()
    burst: Burst = Burst()
    forecast: Forecast = Forecast()
    lead: LeadTime = LeadTime()
    input_tokens: float | None = None
    output_tokens: float | None = None
    steps_per_batch: Annotated[float, Field(gt=0, le=1e9)] | None = None
    used: Used | None = None
    corrections: Annotated[tuple[Correction, ...], newest(8)] = ()

    def correction(self, name: str) -> Correction:
        """The correction of a metric; a fresh one where there is none."""
        found = next((one for one in self.corrections if one.metric == name), None)
        return Correction(metric=name) if found is None else found

    def corrected(self, correction: Correction) -> Learnt:
        """With `correction` in the place of the one of its metric."""
        others = tuple(one for one in self.corrections if one.metric != correction.metric)
        return self.model_copy(update={"corrections": (*others, correction)})


def learn(learnt: Learnt, settings: Settings, signals: Signals, now: float, pods: int, horizon: float) -> Learnt:
    """`learnt` after a window whose sums are over `pods` replicas; forecasts are for `now + horizon`.

    Another model, image or accelerator (`settings.model_key`) has other service times, so that what was learnt of the
    engine is forgotten, and what was learnt of the clients is kept.
    """
    if learnt.model_key != settings.model_key:
        kept = learnt.model_dump(include={"burst", "forecast", "lead"})
        learnt = Learnt.model_validate({**kept, "model_key": settings.model_key})
    window = max(LEAST_WINDOW, signals.window_seconds)
    update: dict[str, object] = {"lead": learn_starts(learnt.lead, signals.replicas.cold_starts)}
    rate = signals.arrivals.known
    if rate is not None:
        update["forecast"] = learn_rate(learnt.forecast, rate, now, horizon, peak_seconds(learnt, settings))
        update["burst"] = learn_burst(learnt.burst, signals.arrival_counts, rate, window)
    update["input_tokens"] = _mean(learnt.input_tokens, signals.input_tokens, window)
    update["output_tokens"] = _mean(learnt.output_tokens, signals.output_tokens, window)
    update |= _engine(learnt, settings, signals, window, pods)
    return learnt.model_copy(update=update)


def lead_of(learnt: Learnt, settings: Settings) -> float:
    """Seconds from asking for a replica until it serves, to plan with."""
    return lead_seconds(learnt.lead, settings.costs.cold_start)


def peak_seconds(learnt: Learnt, settings: Settings) -> float:
    """For how long the highest forecast is remembered by which replicas go."""
    return max(PEAK_SECONDS, agreed_seconds(lead_of(learnt, settings), doubt(learnt.forecast)))


def token_times(learnt: Learnt) -> TokenTimes | None:
    """Step and prompt times under continuous batching; None while too little was seen."""
    return token_times_of(learnt.tokens)


def _engine(learnt: Learnt, settings: Settings, signals: Signals, window: float, pods: int) -> dict[str, object]:
    instances = max(1, signals.knobs.engine_instances)
    if signals.canary_knobs is not None and signals.canary_knobs.engine_instances != signals.knobs.engine_instances:
        return {}  # steps of one and of several instances are in one sum, which is of neither
    if not signals.steps:
        if signals.request_counters is None or settings.continuous:
            return {}  # an engine that takes requests at once has executions of one request and no time
        steps = learn_requests(learnt.steps, signals.request_counters, instances)
        return {"steps": steps, "used": _use(learnt.used, steps, settings)}
    if settings.continuous:
        completed = (signals.completions.known or 0.0) * window * pods / max(1, signals.replicas.ready)
        prompts = completed * (signals.input_tokens.known or learnt.input_tokens or 0.0)
        return {"tokens": learn_tokens(learnt.tokens, signals.steps, prompts, window)}
    seconds = sum(one.seconds for one in signals.steps)
    busy = min(1.0, seconds / (window * instances * max(1, pods)))
    seen = Busy(
        instances=instances,
        share=busy,
        rate=sum(one.count * one.batch_size for one in signals.steps) / (window * max(1, pods)),
        delay=signals.knobs.max_queue_delay.total_seconds(),
    )
    steps = learn_steps(learnt.steps, signals.steps, seen, window)
    found: dict[str, object] = {"steps": steps, "used": _use(learnt.used, steps, settings)}
    formed = sum(one.count for one in signals.batches)
    if formed > 0:
        each = sum(one.count for one in signals.steps) / formed
        found["steps_per_batch"] = max(1.0, _blend(learnt.steps_per_batch, each, window))
    return found


def _use(used: Used | None, steps: StepTimes, settings: Settings) -> Used | None:
    """The service times to model with: those in use, unless what is learnt now differs."""
    most = max(1, min(settings.limits.instances_in_memory, settings.bounds.max_instances))
    found = service_time_of(steps, most)
    if found is None:
        return used
    gains = gains_of(steps, most)
    identified = found.identified or settings.limits.max_sequences == 1  # there are no other sizes
    new = Used(
        # Rounded, so that equal engines are equal models, and are simulated once.
        lines=tuple((float(f"{overhead:.3g}"), float(f"{slope:.3g}")) for overhead, slope in found.lines),
        gains=tuple(round(gain, 2) for gain in gains),
        largest_seen=found.largest_seen,
        identified=identified,
        exact=found.exact,
    )
    if used is None or len(used.gains) != len(gains) or used.identified != identified:
        return new
    old = used.service_time
    sizes = (1.0, max(1.0, found.largest_seen / 2), max(1.0, found.largest_seen), float(settings.limits.max_sequences))
    moved = max(abs(found.seconds(size) / old.seconds(size) - 1.0) for size in sizes)
    regained = max(abs(a / b - 1.0) for a, b in zip(gains, used.gains, strict=True))
    if max(moved, regained) > SAME or used.exact != found.exact:
        return new
    return used.model_copy(update={"largest_seen": found.largest_seen})


def _mean(old: float | None, new: Measured, window: float) -> float | None:
    known = new.known
    return old if known is None or known <= 0 else _blend(old, known, window)


def _blend(old: float | None, new: float, window: float) -> float:
    return new if old is None else old + (1.0 - exp(-window / SIZE_SECONDS)) * (new - old)
