"""One window's signals from the pods' counters. Zero, missing and stale are three different things."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from llmservice.api.knobs import Knobs
from llmservice.signals.adapters import NATIVE, NVIDIA_VLLM, TENSORRT_LLM
from llmservice.signals.frame import Frame, ReadyPod
from llmservice.signals.measure import measure
from llmservice.signals.series import SeriesId
from llmservice.tuning.measured import MISSING, Replicas, Signals, Validity
from tests.unit.signals.pods import ENGINE, GATE, Pod

pytestmark = pytest.mark.unit

OLD = 1000.0


def measured(
    pods: Sequence[Pod], *, until: float = 60, ready_for: float = OLD, newest_ready_for: float = 0.0, slots: int = 18
) -> Signals:
    """`newest_ready_for`: of the last of several pods; 0: as the others."""
    ages = [ready_for] * len(pods)
    ages[-1:] = [newest_ready_for or ready_for] if pods else []
    frame = Frame(
        service="chat",
        since=until - 60,
        until=until,
        scrape_interval=15,
        knobs=Knobs(slots=slots),
        replicas=Replicas(ready=len(pods)),
        pods=tuple(ReadyPod(f"p{number}", age) for number, age in enumerate(ages)),
    )
    return measure(NATIVE, frame, {f"p{number}": pod.history for number, pod in enumerate(pods)})


def scraped(pod: Pod, *moments: float) -> Pod:
    for at in moments:
        pod.scrape(at)
    return pod


def test_rates_are_what_counters_grew_by_over_the_window() -> None:
    pod = scraped(Pod(), 0)
    pod.complete(120, tokens=8)
    pod.add("llm_gate_requests_total", {**GATE, "outcome": "failed"}, 6)
    signals = measured([scraped(pod, 60)])
    assert signals.completions.known == 2
    assert signals.failures.known == 0.1
    assert signals.output_tokens.known == 8
    assert signals.input_tokens.known == 5


def test_what_came_is_what_ended_and_what_is_in_the_house_now_and_was_not_before() -> None:
    pod = scraped(Pod(), 0)
    pod.complete(60)
    pod.put("llm_gate_held_requests", GATE, 4)
    pod.put("nv_inference_pending_request_count", {"model": "chat", "version": "1"}, 20)
    pod.put("llm_gate_admitted_requests", GATE, 6)
    signals = measured([scraped(pod, 60)])
    assert signals.arrivals.known == pytest.approx(90 / 60)
    assert signals.queue_depth.known == 24


def test_arrivals_are_told_scrape_by_scrape_so_that_bursts_can_be_seen() -> None:
    pod = scraped(Pod(), 0)
    for at, requests in ((15, 0), (30, 90), (45, 0), (60, 0)):
        pod.complete(requests)
        pod.scrape(at)
    assert measured([pod]).arrival_counts == (0, 90, 0, 0)


def test_no_traffic_is_zero_and_not_missing() -> None:
    signals = measured([scraped(Pod(), 0, 15, 30, 45, 60)])
    assert signals.arrivals.validity is Validity.ZERO
    assert signals.queue_depth.validity is Validity.ZERO
    assert signals.time_to_first_token.p99.validity is Validity.MISSING, "there is no latency of nothing"


def test_a_pod_that_never_answered_is_missing_and_so_are_its_figures() -> None:
    signals = measured([Pod()])
    assert signals.pods[0].validity is Validity.MISSING
    assert signals.arrivals.validity is Validity.MISSING
    assert signals.queue_depth.validity is Validity.MISSING


def test_a_pod_that_stopped_answering_is_stale_and_its_queue_is_shown_with_its_age() -> None:
    pod = scraped(Pod(), 0, 15)
    pod.put("llm_gate_held_requests", GATE, 3)
    signals = measured([scraped(pod, 25)])
    assert signals.pods[0].validity is Validity.STALE
    assert signals.arrivals.validity is Validity.MISSING
    assert (signals.queue_depth.value, signals.queue_depth.known, signals.queue_depth.age) == (3, None, 35)


def test_one_pod_of_three_that_does_not_answer_stops_nothing_and_makes_nothing_smaller() -> None:
    pods = [scraped(Pod(), 0), scraped(Pod(), 0), Pod()]
    for pod in pods[:2]:
        pod.complete(60)
        pod.scrape(60)
    signals = measured(pods)
    assert signals.completions.known == pytest.approx(3)
    assert [report.validity for report in signals.pods] == [Validity.FRESH, Validity.FRESH, Validity.MISSING]


def test_with_one_of_two_nothing_is_known() -> None:
    pod = scraped(Pod(), 0)
    pod.complete(60)
    assert measured([scraped(pod, 60), Pod()]).completions.validity is Validity.MISSING


def test_a_counter_that_began_again_has_grown_from_zero() -> None:
    pod = scraped(Pod(), 0)
    pod.complete(60)
    pod.scrape(30)
    pod.restart()
    pod.complete(30)
    assert measured([scraped(pod, 60)]).completions.known == 1.5


def test_a_pod_that_is_new_counts_from_zero_and_one_that_was_just_found_does_not() -> None:
    pod = Pod()
    pod.complete(600)
    pod.scrape(45)
    pod.complete(60)
    pod.scrape(60)
    assert measured([pod], ready_for=30).completions.known == pytest.approx(11)
    just_found = measured([pod], ready_for=OLD)
    assert just_found.completions.validity is Validity.MISSING


def test_a_backlog_is_no_new_load_when_a_replica_begins() -> None:
    """What waited at the old replica before the window came before it, whoever began within it."""
    old = Pod()
    old.put("llm_gate_held_requests", GATE, 100)
    old.scrape(0)
    old.complete(60)
    new = Pod()
    signals = measured([scraped(old, 45, 60), scraped(new, 45, 60)], newest_ready_for=20)
    assert signals.arrivals.known == pytest.approx(1.0)
    assert sum(signals.arrival_counts) == pytest.approx(60)


def test_a_replica_that_began_just_before_the_window_and_was_first_read_in_it_counts() -> None:
    old, new = scraped(Pod(), 0), Pod()
    old.complete(60)
    new.complete(30)
    signals = measured([scraped(old, 60), scraped(new, 10, 60)], newest_ready_for=70)
    assert signals.completions.known == pytest.approx(1.5)
    assert [pod.validity for pod in signals.pods] == [Validity.FRESH, Validity.FRESH]


def test_what_came_while_nobody_read_is_not_of_the_window_after() -> None:
    pod = scraped(Pod(), 0)
    pod.complete(6000)
    pod.scrape(245)
    pod.complete(60)
    pod.scrape(300)
    after = measured([pod], until=300)
    assert after.completions.validity is after.arrivals.validity is Validity.MISSING
    assert after.queue_depth.known == 0
    pod.complete(60)
    assert measured([scraped(pod, 360)], until=360).completions.known == 1.0


def test_a_replica_that_began_just_now_and_was_not_read_yet_holds_up_nothing() -> None:
    old = scraped(Pod(), 0)
    old.complete(60)
    signals = measured([scraped(old, 60), Pod()], newest_ready_for=20)
    assert signals.completions.known == 1.0
    assert [pod.validity for pod in signals.pods] == [Validity.FRESH, Validity.MISSING]
    assert measured([old, Pod()], newest_ready_for=31).completions.known is None


def test_a_label_that_appears_in_a_pod_that_was_read_before_began_from_zero() -> None:
    pod = scraped(Pod(), 0)
    pod.step(4, 100, 2.0)
    pod.step(8, 10, 0.5)
    steps = measured([scraped(pod, 60)]).steps
    assert [(step.batch_size, step.count, step.seconds) for step in steps] == [(4, 100, 2.0), (8, 10, 0.5)]


def test_a_second_scrape_of_the_same_moment_counts_nothing_twice() -> None:
    pod = scraped(Pod(), 0)
    pod.complete(60)
    assert measured([scraped(pod, 60, 60, 59)]).completions.known == 1


def test_latencies_are_those_of_the_window_and_of_all_levels() -> None:
    pod = Pod()
    for level, counts in (("1", (99, 100)), ("2", (0, 0))):
        for end, count in zip(("0.1", "+Inf"), counts, strict=True):
            pod.put("llm_time_to_first_token_seconds_bucket", {**GATE, "level": level, "le": end}, count)
    pod.put("llm_time_to_first_token_seconds_count", GATE, 100)
    pod.put("llm_time_to_first_token_seconds_sum", GATE, 5)
    pod.scrape(0)
    for level in ("1", "2"):
        for end, more in (("0.1", 50), ("+Inf", 50)):
            pod.add("llm_time_to_first_token_seconds_bucket", {**GATE, "level": level, "le": end}, more)
    pod.add("llm_time_to_first_token_seconds_count", GATE, 100)
    pod.add("llm_time_to_first_token_seconds_sum", GATE, 4)
    found = measured([scraped(pod, 60)]).time_to_first_token
    assert found.mean.known == pytest.approx(0.04)
    assert found.p50.known == pytest.approx(0.05)
    assert found.p99.samples == 100


def test_the_fullest_replica_s_cache_is_the_service_s() -> None:
    pods = [scraped(Pod(), 0), scraped(Pod(), 0)]
    pods[1].put("llm_engine_kv_cache_usage_ratio", ENGINE, 0.9)
    for pod in pods:
        pod.scrape(60)
    assert measured(pods).kv_usage.known == 0.9


NO_NUMBERS = pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])


@NO_NUMBERS
def test_a_gauge_that_is_no_number_is_missing_and_not_zero(wrong: float) -> None:
    """A ratio of nothing is NaN in Prometheus' format, and whoever counts with it later has no number either."""
    pod = scraped(Pod(), 0)
    pod.complete(60)
    for name in ("llm_gate_held_requests", "llm_engine_running_sequences", "llm_engine_waiting_sequences"):
        pod.put(name, ENGINE if name.startswith("llm_engine") else GATE, wrong)
    signals = measured([scraped(pod, 60)])
    assert {signals.queue_depth, signals.running, signals.waiting, signals.arrivals} == {MISSING}
    assert signals.completions.known == 1


@NO_NUMBERS
def test_a_cache_is_as_full_as_those_that_tell_it(wrong: float) -> None:
    pod = scraped(Pod(), 0)
    pod.put("llm_engine_kv_cache_usage_ratio", ENGINE, 0.5)
    pod.scrape(30)
    pod.put("llm_engine_kv_cache_usage_ratio", ENGINE, wrong)
    assert measured([scraped(pod, 60)]).kv_usage.known == 0.5


@NO_NUMBERS
def test_a_counter_that_is_no_number_for_once_grew_by_what_it_did_around_it(wrong: float) -> None:
    pod, completed = scraped(Pod(), 0), SeriesId.of("llm_gate_requests_total", {**GATE, "outcome": "completed"})
    for at, new in ((15, 60.0), (30, wrong), (45, 660.0), (60, 720.0)):
        pod.values[completed] = new
        pod.scrape(at)
    assert measured([pod]).completions.known == 12


@pytest.mark.parametrize(
    ("steps", "slots", "complaint"),
    [
        ([(4, 1000, 90.0)], 18, "engine steps took 90 s within 1 x 60 s"),
        ([(32, 100, 5.0)], 18, "a step of 32 sequences"),
    ],
)
def test_what_cannot_be_is_named(steps: list[tuple[int, float, float]], slots: int, complaint: str) -> None:
    pod = scraped(Pod(), 0)
    for step in steps:
        pod.step(*step)
    assert complaint in " ".join(measured([scraped(pod, 60)], slots=slots).contradictions)


def test_answers_without_a_step_are_a_contradiction_and_an_idle_engine_is_none() -> None:
    pod = scraped(Pod(), 0)
    pod.complete(100)
    assert "the engine counts no step" in measured([scraped(pod, 60)]).contradictions[0]
    assert measured([scraped(Pod(), 0, 60)]).contradictions == ()


def test_what_stock_drivers_do_not_tell_is_missing() -> None:
    assert NVIDIA_VLLM.waiting is None
    assert NVIDIA_VLLM.kv_usage is None
    assert TENSORRT_LLM.steps is None
    assert "nv_trt_llm_request_metrics" in TENSORRT_LLM.names()
