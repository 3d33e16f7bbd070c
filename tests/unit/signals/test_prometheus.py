"""What a Prometheus answers, as histories of pods."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError, ResponseError

from llmservice.api.fleet import PrometheusConnection
from llmservice.signals.prometheus import Prometheus, PrometheusError, answered, merged, read_matrix
from llmservice.signals.series import SeriesId
from llmservice.signals.source import Histories, Target

pytestmark = pytest.mark.unit

NAME = "llm_gate_requests_total"


def item(values: list[tuple[float, str]], **labels: str) -> dict[str, Any]:
    metric = {"__name__": NAME, "namespace": "chat", "pod": "p0", "job": "pods", "instance": "10.0.0.7:8002", **labels}
    return {"metric": metric, "values": [list(value) for value in values]}


def test_samples_keep_their_own_times_and_the_exporter_s_labels() -> None:
    (found,) = read_matrix(NAME, [item([(1.5, "7")], exported_instance="g1", outcome="completed", revision="1a2b")])
    assert found.pod == ("chat", "p0")
    assert found.series == SeriesId.of(NAME, {"instance": "g1", "outcome": "completed"})
    assert found.points == ((1.5, 7.0),)


def test_a_label_that_was_honoured_and_one_that_is_only_an_address_are_told_apart() -> None:
    (honoured,) = read_matrix(NAME, [item([(1, "7")], instance="g1")])
    (address,) = read_matrix(NAME, [item([(1, "7")])])
    assert honoured.series.label("instance") == "g1"
    assert address.series.label("instance") == ""


def test_a_pod_scraped_twice_counts_once_by_whoever_saw_most() -> None:
    pair = [
        item([(1, "10"), (16, "20")], prometheus_replica="a", outcome="completed"),
        item([(2, "10"), (17, "20"), (32, "30")], prometheus_replica="b", outcome="completed"),
    ]
    moments = merged(read_matrix(NAME, pair), skew=0)
    assert sorted(moments) == [2, 17, 32]


def test_another_clock_s_times_become_ours() -> None:
    moments = merged(read_matrix(NAME, [item([(100, "1")])]), skew=40)
    assert sorted(moments) == [60]


def test_a_series_of_no_pod_is_passed_over() -> None:
    assert read_matrix(NAME, [{"metric": {"__name__": NAME}, "values": [[1, "7"]]}]) == []


@pytest.mark.parametrize("answer", [[{"metric": {}}, 3], [item([(1, "seven")])], [{"value": [1, "7"]}]])
def test_another_form_is_an_error_and_not_a_figure(answer: list[Any]) -> None:
    with pytest.raises(PrometheusError, match="another form"):
        read_matrix(NAME, answer)


async def test_one_that_does_not_answer_is_said_and_leaves_histories_as_they_are() -> None:
    source = Prometheus(PrometheusConnection(url="http://127.0.0.1:9"), 15.0)
    histories: Histories = {}
    said = await source.collect([Target(("chat", "p0"), "", frozenset({NAME}))], histories, 0.0)
    assert "http://127.0.0.1:9" in said
    assert "does not answer" in said
    assert histories == {}


async def test_credentials_that_cannot_be_read_are_said() -> None:
    source = Prometheus(PrometheusConnection(url="http://127.0.0.1:9", token_file="/nowhere/token"), 15.0)
    said = await source.collect([Target(("chat", "p0"), "", frozenset({NAME}))], {}, 0.0)
    assert "credentials cannot be read" in said


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (requests.ConnectionError(), "does not answer (ConnectionError)"),
        (requests.JSONDecodeError("no JSON", "<html>", 0), "not Prometheus' JSON: check the URL"),
        (KeyError("data"), "not Prometheus' JSON: check the URL"),
        (requests.exceptions.InvalidURL(), "write http://HOST:PORT"),
        (requests.exceptions.MissingSchema(), "write http://HOST:PORT"),
        (requests.exceptions.InvalidSchema(), "write http://HOST:PORT"),
        (requests.TooManyRedirects(), "redirects without end: check the URL"),
        (
            requests.exceptions.RetryError(
                MaxRetryError(HTTPConnectionPool("a"), "/", ResponseError("too many 500 error responses"))
            ),
            "fails again and again (too many 500 error responses)",
        ),
        (PrometheusApiClientException("HTTP Status Code 404"), "refuses the query up: HTTP Status Code 404"),
    ],
)
def test_what_fails_is_said_with_what_to_check(error: Exception, told: str) -> None:
    def ask(_query: str) -> None:
        raise error

    with pytest.raises(PrometheusError) as caught:
        answered(ask, "up")
    assert told in str(caught.value)
