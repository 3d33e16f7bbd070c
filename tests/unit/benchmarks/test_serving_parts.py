"""Workloads, the protocol of drivers and the pictures of the serving benchmark."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import pytest

from benchmarks.serving.contender import Result
from benchmarks.serving.driver import Arrived, Sender, decode, drive, encode
from benchmarks.serving.picture import Bar, Line, bars, chart
from benchmarks.serving.profile import part_of
from benchmarks.serving.workload import (
    Answer,
    Job,
    bursts,
    fixed,
    long_prompts,
    mixed,
    open_loop,
    percentile,
    recorded,
)

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_prompt_has_a_word_for_each_token_and_depends_on_its_seed() -> None:
    assert len(Job(64, 1, seed=3).prompt().split()) == 64
    assert Job(64, 1, seed=3).prompt() == Job(64, 1, seed=3).prompt() != Job(64, 1, seed=4).prompt()


def test_mixed_lengths_have_the_mean_they_say() -> None:
    lengths = [job.output_tokens for job in mixed(16, 500, seed=1).jobs]
    assert sum(lengths) / len(lengths) == pytest.approx(64, rel=0.05)
    assert max(lengths) > 200
    assert mixed(2, 2, seed=5) == mixed(2, 2, seed=5)


def test_a_load_goes_through_the_protocol_unchanged() -> None:
    for load in (fixed(2, 3), open_loop(mixed(2, 2), 4.0), long_prompts(2, 10, 3, 1000)):
        assert decode(encode(load)) == load


def test_a_stream_sends_its_next_job_when_its_last_is_answered() -> None:
    sender = Sender(fixed(2, 2), Clock())
    assert sender.due() == [0, 1]
    assert sender.due() == []
    sender.answered()
    assert sender.due() == [2]
    sender.answered()
    assert sender.due() == [3]
    sender.answered()
    assert not sender.done()
    sender.answered()
    assert sender.done()


def test_an_open_loop_sends_at_its_times_whatever_is_answered() -> None:
    clock = Clock()
    load = open_loop(fixed(1, 3), 2.0, seed=1)
    sender = Sender(load, clock)
    assert sender.wait() == load.arrivals[0]
    clock.seconds = load.arrivals[1]
    assert sender.due() == [0, 1]
    clock.seconds = load.arrivals[2]
    assert sender.due() == [2]
    assert sender.wait() is None


def test_what_an_answer_tells() -> None:
    answer = Answer(1.0, [1.5, 1.75, 2.5])
    assert (answer.first_token, answer.latency, answer.gaps()) == (0.5, 1.5, [0.25, 0.75])
    result = Result(fixed(1, 1, tokens=3), (answer,))
    assert result.tokens_per_second == pytest.approx(3 / 2.5)


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0] * 99 + [9.0], 0.99) == 1.0
    assert percentile([1.0] * 98 + [9.0] * 2, 0.99) == 9.0


def test_bursts_come_so_many_at_a_time() -> None:
    assert bursts(fixed(2, 2), 2, 5.0).arrivals == (0.0, 0.0, 5.0, 5.0)


def test_a_recorded_trace_keeps_its_shape_and_asks_for_so_many_tokens_a_second() -> None:
    load = recorded([7.0, 8.0, 17.0], [1000.0, 4000.0, 10.0], [100.0, 500.0, 120.0], 16, tokens_per_second=24.0)
    assert [job.output_tokens for job in load.jobs] == [27, 133, 32]
    assert [job.prompt_tokens for job in load.jobs] == [267, 400, 4]
    assert load.arrivals == pytest.approx((0.0, 0.8, 8.0))


async def test_driving_asks_each_job_once_and_notes_when_tokens_came() -> None:
    running, most = 0, 0

    async def ask(job: Job, arrived: Arrived) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(job.output_tokens):
            await asyncio.sleep(0)
            arrived(1)
        running -= 1

    answers = await drive(fixed(2, 3, tokens=4), ask)
    assert [len(answer.times) for answer in answers] == [4] * 6
    assert most == 2
    assert all(answer.sent <= answer.times[0] <= answer.times[-1] for answer in answers)
    assert len(await drive(open_loop(fixed(1, 5, tokens=1), 10_000.0), ask)) == 5


async def test_driving_ends_with_the_first_failure() -> None:
    async def ask(job: Job, arrived: Arrived) -> None:
        if job.seed == 1:
            raise ValueError("no memory")
        await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await drive(fixed(2, 1), ask)
    assert [str(one) for one in caught.value.exceptions] == ["no memory"]


def test_the_picture_is_svg_with_a_line_for_each_contender() -> None:
    svg = chart("T & U", "streams", [Line("torch", ((1, [9.0, 11.0]), (16, [90.0]))), Line("vllm", ((1, [8.0]),))])
    root = ElementTree.fromstring(svg)
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 2
    assert "T & U" in "".join(root.itertext())


def test_bars_say_whether_a_goal_is_met() -> None:
    met, missed = Bar("speed", [1.9, 2.1], 2.0, "higher"), Bar("wait", [0.5], 0.25, "lower")
    assert met.colour != missed.colour
    root = ElementTree.fromstring(bars("R", [met, missed]))
    assert {"speed", "2.00 (≥ 2)", "wait", "0.50 (≤ 0.25)"} <= set(root.itertext())
    ElementTree.fromstring(bars("R", []))


@pytest.mark.parametrize(
    ("operator", "part"),
    [
        ("mkldnn::_linear_pointwise", "matrices"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::index_select", "gather and store"),
        ("aten::mul", "other operators"),
    ],
)
def test_operators_are_counted_to_their_part(operator: str, part: str) -> None:
    assert part_of(operator) == part
