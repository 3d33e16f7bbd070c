"""What is asked of Prometheus for a service's past, and what becomes of the answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import requests

from llmservice.signals.past import connect, read_past, window_for
from llmservice.signals.prometheus import PrometheusError
from llmservice.tuning.simulator.history import HistoryError

pytestmark = pytest.mark.unit

END = datetime(2026, 1, 1, 1, 0, tzinfo=UTC)


class Answers:
    """Answers queries by the metric they name."""

    def __init__(self, content: dict[str, list[Any]], interval: float = 15.0) -> None:
        self.content = content
        self.interval = interval
        self.asked: list[str] = []
        self.windows: set[str] = set()

    def custom_query_range(self, query: str, start: datetime, end: datetime, step: str) -> list[Any]:
        self.asked.append(query)
        if query.startswith("max(count_over_time("):
            assert start == end
            return [{"metric": {}, "values": [[end.timestamp(), str(600.0 / self.interval)]]}] if self.interval else []
        self.windows.add(step)
        if step == "60s":
            assert (end - start).total_seconds() == 9 * 60
        return next((answer for name, answer in self.content.items() if name in query), [])


def at(minute: int) -> float:
    return END.timestamp() - (10 - minute) * 60


def test_windows_are_sums_and_what_was_not_there_is_no_number() -> None:
    answers = Answers(
        {
            "outcome": [{"metric": {}, "values": [[at(1), "3"]]}],
            "llm_gate_requests_total": [{"metric": {}, "values": [[at(1), "5"], [at(10), "7"]]}],
            "steps_total": [{"metric": {"batch_size": "4"}, "values": [[at(2), "100"]]}],
            "step_seconds_total": [{"metric": {"batch_size": "4"}, "values": [[at(2), "1.5"]]}],
        }
    )
    past = read_past(answers, "chat", "llama", END, 600.0)
    assert past.arrivals[0] == 5
    assert past.arrivals[9] == 7
    assert np.isnan(past.arrivals[1:9]).all()
    assert past.sizes.tolist() == [4]
    assert past.step_seconds[1, 0] == 1.5
    assert any('namespace="chat",model="llama-engine"' in query for query in answers.asked)


def test_a_prometheus_that_is_away_is_told() -> None:
    class Away:
        def custom_query_range(self, *_: object) -> list[Any]:
            raise requests.ConnectionError

    with pytest.raises(PrometheusError, match="does not answer"):
        read_past(Away(), "chat", "llama", END, 600.0)


@pytest.mark.parametrize(
    ("interval", "window"), [(1.0, "60s"), (15.0, "60s"), (30.0, "120s"), (60.0, "240s"), (0, "240s")]
)
def test_a_window_holds_four_scrapes(interval: float, window: str) -> None:
    answers = Answers({}, interval)
    read_past(answers, "chat", "llama", END, 3600.0 if window != "60s" else 600.0)
    assert answers.windows == {window}


def test_long_pasts_have_longer_windows() -> None:
    assert window_for(86400) == 60
    assert window_for(30 * 86400) == 300


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"metric": {}, "value": [1, "2"]}, "another form than samples over time: check the URL"),
        ({"metric": {}, "values": [[1, "abc"]]}, "another form"),
        ({"metric": {}, "values": [[1]]}, "another form"),
        (3, "another form"),
        ({"metric": {"batch_size": "big"}, "values": []}, "with batch_size='big', which is no number"),
        ({"metric": {"batch_size": "nan"}, "values": []}, "with batch_size='nan', which is no number"),
        ({"metric": {"batch_size": "0"}, "values": []}, "with batch_size='0', which is no number"),
    ],
)
def test_answers_that_are_no_steps_by_size_are_told(answer: Any, told: str) -> None:
    with pytest.raises(PrometheusError, match=told):
        read_past(Answers({"steps_total": [answer]}), "chat", "llama", END, 600.0)


def test_what_is_no_growth_counts_as_not_there() -> None:
    values = [[at(minute), value] for minute, value in enumerate(("NaN", "+Inf", "-4", "7"), start=1)]
    arrivals = read_past(Answers({"requests_total": [{"metric": {}, "values": values}]}), "c", "l", END, 600.0).arrivals
    assert np.isnan(arrivals[:3]).all()
    assert arrivals[3] == 7


def test_less_than_two_windows_are_told() -> None:
    with pytest.raises(HistoryError, match="60 s are less than two windows of 60 s: look further back"):
        read_past(Answers({}), "chat", "llama", END, 60.0)


@pytest.mark.parametrize(
    "url", ["", "prometheus", "127.0.0.1:9090", "ftp://x", "http://", "http://[bad", "http://a:99999"]
)
def test_what_is_no_url_is_told(url: str) -> None:
    with pytest.raises(PrometheusError, match="is no URL of a Prometheus: write http://HOST:PORT"):
        connect(url)
