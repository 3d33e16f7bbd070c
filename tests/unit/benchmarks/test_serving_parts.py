"""Workloads, the protocol of drivers and the picture of the serving benchmark."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.serving.contender import Result
from benchmarks.serving.driver import Sender, decode, encode
from benchmarks.serving.picture import Line, chart
from benchmarks.serving.plan import CASES
from benchmarks.serving.profile import part_of
from benchmarks.serving.workload import Answer, Job, fixed, long_prompts, mixed, open_loop, percentile

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
    assert sender.wait() == 0.0


def test_what_an_answer_tells() -> None:
    answer = Answer(1.0, [1.5, 1.75, 2.5])
    assert (answer.first_token, answer.latency, answer.gaps()) == (0.5, 1.5, [0.25, 0.75])
    result = Result(fixed(1, 1, tokens=3), (answer,))
    assert result.tokens_per_second == pytest.approx(3 / 2.5)


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0] * 99 + [9.0], 0.99) == 1.0
    assert percentile([1.0] * 98 + [9.0] * 2, 0.99) == 9.0


def test_every_round_of_a_case_has_the_same_shape_and_other_words() -> None:
    for case in CASES:
        first, second = (case.load(round_, short=True) for round_ in (0, 1))
        assert len(first.jobs) == len(second.jobs)
        assert not {job.prompt() for job in first.jobs} & {job.prompt() for job in second.jobs}


def test_the_picture_is_svg_with_a_line_for_each_contender() -> None:
    svg = chart("T & U", "streams", [Line("torch", ((1, [9.0, 11.0]), (16, [90.0]))), Line("vllm", ((1, [8.0]),))])
    root = ElementTree.fromstring(svg)
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 2
    assert "T & U" in "".join(root.itertext())


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
