"""The scheduler against a slow obvious model, and its promises when the cache is too small."""

from __future__ import annotations

import random
from collections.abc import Sequence as Items
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmserving.engine import SamplingParameters
from llmtorch.block_manager import BlockManager
from llmtorch.chat import ChatTemplate
from llmtorch.scheduler import Chunk, Scheduler
from llmtorch.sequence import Sequence
from llmtorch.stop_strings import StopStrings
from llmtorch.tokenizer import Detokenizer, TextTokenizer
from tests.unit.torch_engine.tiny import byte_tokenizer

pytestmark = pytest.mark.unit

TOKENIZER = TextTokenizer(byte_tokenizer(), ChatTemplate(None, {}))
BLOCK = 4
LONGEST = 40

JOBS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 30), st.integers(1, 10)), min_size=1, max_size=12)
"""Requests as (steps after the one before, tokens of prompt, tokens of answer)."""


def sequence(key: int, prompt: int, answer: int = 1, batch: int | None = None) -> Sequence:
    return Sequence(
        key=key,
        arrival=key,
        tokens=[0] * prompt,
        num_prompt=prompt,
        max_tokens=answer,
        sampling=SamplingParameters(),
        batch=batch,
        rng=random.Random(0),
        detokenizer=Detokenizer(TOKENIZER),
        stop_strings=StopStrings(()),
    )


def scheduler(*, blocks: int = 1000, max_sequences: int = 4, token_budget: int = 16) -> Scheduler:
    return Scheduler(BlockManager(blocks, BLOCK), max_sequences, token_budget)


def compute(scheduler: Scheduler, chunks: Items[Chunk]) -> None:
    """What the engine does with the chunks: tokens are computed, one is sampled, answers end."""
    giving = [chunk.sequence for chunk in chunks if chunk.gives_token]
    for chunk in chunks:
        chunk.sequence.num_computed += chunk.count
    for one in giving:
        one.tokens.append(0)
        if one.num_output == one.max_tokens:
            scheduler.remove(one)


def check(scheduler: Scheduler, chunks: Items[Chunk], max_sequences: int, token_budget: int) -> None:
    everyone = [*scheduler.running, *scheduler.waiting]
    taken = [block for one in everyone for block in one.blocks]
    assert len(set(taken)) == len(taken)
    assert len(taken) + scheduler.blocks.num_free == scheduler.blocks.num_blocks
    assert sum(chunk.count for chunk in chunks) <= token_budget
    assert len(scheduler.running) <= max_sequences
    assert len({id(chunk.sequence) for chunk in chunks}) == len(chunks)
    assert all(chunk.sequence in scheduler.running for chunk in chunks)
    for chunk in chunks:
        assert 1 <= chunk.count <= chunk.sequence.num_pending
        assert len(chunk.sequence.blocks) * BLOCK >= chunk.sequence.num_computed + chunk.count
    assert all(not one.blocks and one.num_computed == 0 for one in scheduler.waiting)
    assert len({one.batch for one in scheduler.running}) <= 1


@dataclass
class _Job:
    key: int
    pending: int
    answer: int


def obvious(jobs: Items[tuple[int, int, int]], max_sequences: int, token_budget: int) -> list[dict[int, int]]:
    """Tokens of each step by key, for a cache without end."""
    arrivals: list[tuple[int, _Job]] = []
    at = 0
    for key, (gap, prompt, answer) in enumerate(jobs):
        at += gap
        arrivals.append((at, _Job(key, prompt, answer)))
    steps: list[dict[int, int]] = []
    running: list[_Job] = []
    waiting: list[_Job] = []
    now = 0
    while arrivals or running or waiting:
        waiting += [job for time, job in arrivals if time == now]
        arrivals = [(time, job) for time, job in arrivals if time > now]
        step: dict[int, int] = {}

        def give(job: _Job, step: dict[int, int] = step) -> bool:
            count = min(job.pending, token_budget - sum(step.values()))
            if count:
                step[job.key] = count
            return count > 0

        for job in [j for j in running if j.pending == 1] + [j for j in running if j.pending > 1]:
            give(job)
        while waiting and len(running) < max_sequences and give(waiting[0]):
            running.append(waiting.pop(0))
        for job in list(running):
            job.pending -= step.get(job.key, 0)
            if job.pending == 0:
                job.pending, job.answer = 1, job.answer - 1
                if job.answer == 0:
                    running.remove(job)
        steps.append(step)
        now += 1
    return steps


@given(JOBS, st.integers(1, 5), st.integers(5, 20))
def test_with_cache_enough_each_step_is_that_of_the_obvious_model(
    jobs: list[tuple[int, int, int]], max_sequences: int, token_budget: int
) -> None:
    tested = scheduler(max_sequences=max_sequences, token_budget=token_budget)
    for step, wanted in enumerate(obvious(jobs, max_sequences, token_budget)):
        at = 0
        for key, (gap, prompt, answer) in enumerate(jobs):
            at += gap
            if at == step:
                tested.add(sequence(key, prompt, answer))
        chunks = tested.schedule()
        check(tested, chunks, max_sequences, token_budget)
        assert {chunk.sequence.key: chunk.count for chunk in chunks} == wanted
        compute(tested, chunks)
    assert not tested.has_work()


@given(JOBS, st.integers(1, 5), st.integers(5, 20), st.integers(LONGEST // BLOCK, 20), st.data())
def test_in_a_small_cache_all_end_and_no_block_is_lost(
    jobs: list[tuple[int, int, int]], max_sequences: int, token_budget: int, blocks: int, data: st.DataObject
) -> None:
    tested = scheduler(blocks=blocks, max_sequences=max_sequences, token_budget=token_budget)
    coming = [sequence(key, prompt, answer) for key, (_, prompt, answer) in enumerate(jobs)]
    total = sum(prompt + answer for _, prompt, answer in jobs)
    cancelled = 0
    for _ in range(total * len(jobs) + len(jobs)):
        if coming:
            tested.add(coming.pop(0))
        everyone = [*tested.running, *tested.waiting]
        if everyone and data.draw(st.integers(0, 9)) == 0:
            tested.remove(data.draw(st.sampled_from(everyone)))
            cancelled += 1
        if not tested.has_work():
            assert not tested.running
            assert not tested.waiting
            if not coming:
                break
            continue
        chunks = tested.schedule()
        check(tested, chunks, max_sequences, token_budget)
        assert chunks, "has_work promises a step that does something"
        decoding = [one for one in tested.running if one.num_output and one.num_pending == 1]
        assert all(any(chunk.sequence is one for chunk in chunks) for one in decoding), "no answer ever stalls"
        # The oldest is never the one that gives way.
        assert min(chunk.sequence.arrival for chunk in chunks) == min(one.arrival for one in tested.running)
        compute(tested, chunks)
    else:
        pytest.fail("sequences that never end")
    assert tested.blocks.num_free == blocks


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.randoms(use_true_random=False), st.integers(1, 5))
def test_batches_run_to_completion_one_after_the_other(
    sizes: list[int], shuffle: random.Random, max_sequences: int
) -> None:
    tested = scheduler(max_sequences=max_sequences)
    members = [(batch, size) for batch, size in enumerate(sizes) for _ in range(size)]
    shuffle.shuffle(members)
    arrived: dict[int, int] = dict.fromkeys(range(len(sizes)), 0)
    order: list[int] = []
    ended = 0
    for key in range(10_000):
        if members:
            batch, size = members.pop()
            arrived[batch] += 1
            tested.add(sequence(key, prompt=key % 7 + 1, answer=key % 3 + 1, batch=batch), size)
        chunks = tested.schedule()
        check(tested, chunks, max_sequences, token_budget=16)
        for chunk in chunks:
            current = chunk.sequence.batch
            assert current is not None
            assert arrived[current] == sizes[current], "a batch starts when all its members are there"
            if current not in order:
                order.append(current)
            assert current == order[-1], "nothing joins a batch that runs"
        before = len(tested.running)
        compute(tested, chunks)
        ended += before - len(tested.running)
        if ended == sum(sizes):
            break
    assert sorted(order) == list(range(len(sizes)))
    assert not tested.has_work()


def test_a_member_that_is_refused_or_cancelled_does_not_hold_the_batch() -> None:
    tested = scheduler()
    first = sequence(1, prompt=3, batch=7)
    tested.add(first, 3)
    assert not tested.has_work()
    tested.remove(first)
    tested.expect(7, 3)
    tested.add(sequence(2, prompt=3, batch=7), 3)
    assert [chunk.sequence.key for chunk in tested.schedule()] == [2]


def test_decoding_goes_before_prompts() -> None:
    tested = scheduler(token_budget=8)
    tested.add(sequence(1, prompt=4, answer=5))
    compute(tested, tested.schedule())
    tested.add(sequence(2, prompt=30))
    assert [(chunk.sequence.key, chunk.count) for chunk in tested.schedule()] == [(1, 1), (2, 7)]


def test_the_newest_gives_its_blocks_to_the_oldest() -> None:
    tested = scheduler(blocks=3)
    tested.add(sequence(1, prompt=4, answer=20))
    tested.add(sequence(2, prompt=4, answer=20))
    compute(tested, tested.schedule())
    chunks = tested.schedule()
    assert [chunk.sequence.key for chunk in chunks] == [1]
    assert [one.key for one in tested.waiting] == [2]
    assert tested.num_preemptions == 1
    assert tested.waiting[0].num_pending == 5, "its first token stays and is not sampled again"
