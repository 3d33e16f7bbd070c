"""Triton's statistics as series: exact execution times by batch size, beside a pod's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from llmservice.api.knobs import Knobs
from llmservice.signals.adapters import TENSORRT_LLM, TRITON_BATCHES
from llmservice.signals.frame import Frame, ReadyPod
from llmservice.signals.measure import measure
from llmservice.signals.scrape import ScrapeError
from llmservice.signals.series import SeriesId
from llmservice.signals.source import Histories, Target, history_of
from llmservice.signals.statistics import Points, WithStatistics, series_of
from llmservice.tuning.learnt import Learnt, learn
from llmservice.tuning.measured import Replicas, Signals
from llmservice.tuning.step_times import service_time_of
from tests.unit.tuning.windows import frame

pytestmark = pytest.mark.unit

POD = ("ns", "p0")
MODEL = {"model": "chat", "version": "1"}
OVERHEAD, EACH = 0.040, 0.004


def answer(executions: dict[int, int]) -> dict[str, Any]:
    """What Triton says after so many executions of each size, each a + c·b."""

    def compute(size: int, count: int) -> dict[str, int]:
        return {"count": count, "ns": round(1e9 * count * (OVERHEAD + EACH * size))}

    batches = [{"batch_size": size, "compute_infer": compute(size, count)} for size, count in executions.items()]
    return {"model_stats": [{"name": "chat", "version": "1", "batch_stats": batches}]}


class Page:
    """A source that reads pods' pages: Triton's counters by request."""

    name = "Pods"

    def __init__(self, executions: dict[int, int]) -> None:
        self.executions = executions

    async def collect(self, targets: Sequence[Target], histories: Histories, now: float) -> str:
        items = list(self.executions.items())
        requests = float(sum(size * count for size, count in items))
        seconds = sum(size * count * (OVERHEAD + EACH * size) for size, count in items)
        values = {
            "nv_inference_request_success": requests,
            "nv_inference_count": requests,
            "nv_inference_exec_count": float(sum(count for _, count in items)),
            "nv_inference_compute_infer_duration_us": 1e6 * seconds,
            "nv_inference_pending_request_count": 0.0,
        }
        for target in targets:
            points = [(SeriesId.of(name, MODEL), value) for name, value in values.items()]
            history_of(histories, target.pod).add(now, points)
        return ""


class Reader:
    """Answers with statistics, or does not."""

    def __init__(self, executions: dict[int, int]) -> None:
        self.executions, self.broken = executions, False
        self.asked: list[tuple[str, str]] = []

    async def statistics(self, url: str, token: str) -> Points:
        self.asked.append((url, token))
        if self.broken:
            raise ScrapeError("no answer")
        return series_of(answer(self.executions))


TARGET = Target(POD, "http://p0/metrics", TRITON_BATCHES.names(), "http://p0/v2/models/chat/stats", "secret")


async def looked(reader: Reader, more: dict[int, int], target: Target = TARGET) -> Signals:
    """A window of a minute in which `more` was executed."""
    histories: Histories = {}
    page = Page(dict(reader.executions))
    source = WithStatistics(page, reader)
    await source.collect([target], histories, 0)
    for counted in (page.executions, reader.executions):
        counted.update({size: counted.get(size, 0) + count for size, count in more.items()})
    await source.collect([target], histories, 60)
    knobs = Knobs(slots=66)
    window = Frame("chat", 0, 60, 60, knobs, Replicas(ready=1), (ReadyPod("p0", 1000.0),))
    return measure(TRITON_BATCHES, window, {"p0": histories[POD]})


async def test_executions_by_size_are_steps_of_the_window() -> None:
    signals = await looked(Reader({1: 100, 8: 3}), {8: 20, 16: 30})
    assert [(one.batch_size, one.count) for one in signals.steps] == [(8, 20), (16, 30)]
    assert signals.steps[1].seconds == pytest.approx(30 * (OVERHEAD + EACH * 16))


async def test_counters_by_request_come_from_the_page() -> None:
    signals = await looked(Reader({}), {2: 10, 4: 5})
    seconds = 20 * (OVERHEAD + 2 * EACH) + 20 * (OVERHEAD + 4 * EACH)
    assert signals.request_counters is not None
    assert (signals.request_counters.requests, signals.request_counters.executions) == (40, 15)
    assert signals.request_counters.compute_seconds == pytest.approx(seconds)


async def test_the_token_goes_along_and_is_not_shown() -> None:
    reader = Reader({1: 1})
    await looked(reader, {1: 1})
    assert set(reader.asked) == {("http://p0/v2/models/chat/stats", "secret")}
    assert "secret" not in repr(TARGET)


async def test_a_target_without_statistics_is_asked_for_none() -> None:
    reader = Reader({1: 1})
    signals = await looked(reader, {1: 1}, Target(POD, "http://p0/metrics", TENSORRT_LLM.names()))
    assert reader.asked == []
    assert signals.steps == ()


async def test_statistics_that_cannot_be_read_leave_what_the_page_says() -> None:
    reader = Reader({})
    reader.broken = True
    signals = await looked(reader, {2: 10})
    assert signals.steps == ()
    assert signals.completions.known == pytest.approx(20 / 60)
    assert signals.request_counters is not None


@pytest.mark.parametrize("wrong", [{}, {"model_stats": [{}]}, {"model_stats": 3}, {"model_stats": [None]}, []])
def test_what_is_no_statistics_is_one_clear_error(wrong: Any) -> None:
    with pytest.raises(ValueError, match="no statistics of Triton's"):
        series_of(wrong)


async def test_under_bursts_statistics_give_t_of_b_exactly_where_counters_by_request_do_not() -> None:
    """Half the batches are of one request and half of thirty: E[b²] is far from what Poisson arrivals would have."""
    signals = await looked(Reader({}), {1: 300, 30: 300, 8: 40})
    settings = frame()
    exact = learn(Learnt(), settings, signals, 1000.0, 1, 240.0)
    by_request = learn(Learnt(), settings, replace(signals, steps=()), 1000.0, 1, 240.0)
    found, rough = service_time_of(exact.steps, 1), service_time_of(by_request.steps, 1)
    assert found is not None
    for size in (1, 8, 30):
        assert found.seconds(size) == pytest.approx(OVERHEAD + EACH * size, rel=0.02)
    assert found.exact
    assert rough is None or not rough.exact, "flagged"
