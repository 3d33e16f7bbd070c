"""The scheduler against a slow obvious model, and its promises when the cache is too small."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmtorch.scheduler import Limits
from tests.unit.torch_engine.scheduling import AGING, BLOCK, World, check_blocks, sequence

pytestmark = pytest.mark.unit

LONGEST = 40
Job = tuple[int, int, int, int]
JOBS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 30), st.integers(1, 10), st.integers(0, 2)), min_size=1, max_size=12
)
"""Requests as (steps after the one before, tokens of prompt, tokens of answer, level)."""
LIMITS = st.builds(
    Limits,
    max_sequences=st.integers(1, 5),
    token_budget=st.integers(5, 20),
    max_prefills=st.none() | st.integers(1, 3),
    mixed_prefill_tokens=st.none() | st.integers(1, 8),
    paced_prefill_tokens=st.none() | st.integers(1, 8),
)


@dataclass
class Obvious:
    """One request in the obvious model."""

    key: int
    rank: tuple[float, int]
    level: int
    tokens: int
    answer: int
    done: int = 0

    @property
    def pending(self) -> int:
        return self.tokens - self.done


@dataclass
class Step:
    """What the obvious model gives each request, by key; `eager` prompts are begun or may be."""

    limits: Limits
    decodes: dict[int, int]
    eager: int = 0
    prompts: dict[int, int] = field(default_factory=dict)

    def give(self, job: Obvious) -> None:
        self.prompts[job.key] = min(job.pending, self.room())

    def take_back(self, job: Obvious) -> None:
        self.decodes.pop(job.key, None)
        self.prompts.pop(job.key, None)

    def room(self) -> int:
        if self.limits.max_prefills is not None and len(self.prompts) == self.limits.max_prefills:
            return 0
        most = self.limits.token_budget - len(self.decodes)
        if self.decodes and self.limits.mixed_prefill_tokens is not None:
            most = min(most, self.limits.mixed_prefill_tokens)
        if self.decodes and self.limits.paced_prefill_tokens is not None:
            shares = max(1.0, self.eager / len(self.decodes))
            most = min(most, math.floor(self.limits.paced_prefill_tokens * shares + 1e-9))
        return most - sum(self.prompts.values())


def admit(step: Step, running: list[Obvious], waiting: list[Obvious]) -> None:
    """The most urgent first, while there are seats or someone less urgent sits on one."""
    while waiting and step.room() > 0:
        first = min(waiting, key=lambda job: job.rank)
        if len(running) == step.limits.max_sequences:
            below = [job for job in running if job.level > first.level and job.rank > first.rank]
            if not below:
                return
            room = step.room()
            last = max(below, key=lambda job: job.rank)
            running.remove(last)
            waiting.append(last)
            last.done = 0
            step.take_back(last)
            step.prompts[first.key] = min(first.pending, room)
        else:
            step.give(first)
        waiting.remove(first)
        running.append(first)


def obvious(jobs: Items[Job], limits: Limits) -> list[dict[int, int]]:
    """Tokens of each step by key, for a cache without end in which nothing is found again."""
    arrivals, at = [], 0
    for key, (gap, prompt, answer, level) in enumerate(jobs):
        at += gap
        arrivals.append((at, Obvious(key, (at + AGING * level, key), level, prompt, answer)))
    steps: list[dict[int, int]] = []
    running: list[Obvious] = []
    waiting: list[Obvious] = []
    while arrivals or running or waiting:
        waiting += [job for time, job in arrivals if time == len(steps)]
        arrivals = [(time, job) for time, job in arrivals if time > len(steps)]
        step = Step(limits, {job.key: 1 for job in running if job.pending == 1})
        step.eager = len(running) - len(step.decodes) + min(len(waiting), limits.max_sequences - len(running))
        for job in sorted(running, key=lambda job: job.rank):
            if job.pending > 1 and step.room() > 0:
                step.give(job)
        admit(step, running, waiting)
        given = step.decodes | step.prompts
        for job in list(running):
            job.done += given.get(job.key, 0)
            if job.pending == 0:
                job.tokens, job.answer = job.tokens + 1, job.answer - 1
                if job.answer == 0:
                    running.remove(job)
        steps.append(given)
    return steps


@settings(deadline=None)
@given(JOBS, LIMITS)
def test_with_cache_enough_each_step_is_that_of_the_obvious_model(jobs: list[Job], limits: Limits) -> None:
    world = World.of(prefix_caching=False)
    world.scheduler.limits = limits
    for step, wanted in enumerate(obvious(jobs, limits)):
        at = 0
        for key, (gap, prompt, answer, level) in enumerate(jobs):
            at += gap
            if at == step:
                world.add(sequence(key, prompt, level=level, arrived=at), answer)
        assert world.step() == wanted
    assert not world.scheduler.has_work()


@settings(deadline=None)
@given(JOBS, LIMITS, st.integers(LONGEST // BLOCK, 20), st.booleans(), st.data())
def test_in_a_small_cache_all_end_and_no_block_is_lost(
    jobs: list[Job], limits: Limits, blocks: int, prefix_caching: bool, data: st.DataObject
) -> None:
    world = World.of(blocks=blocks, prefix_caching=prefix_caching)
    tested = world.scheduler
    tested.limits = limits
    coming = []
    for key, (shared, prompt, answer, level) in enumerate(jobs):
        beginning = list(range(min(shared * BLOCK, prompt)))  # many prompts begin alike
        rest = [key * 1000 + at for at in range(len(beginning), prompt)]
        coming.append((sequence(key, beginning + rest, level=level, arrived=key), answer))
    steps = 0
    while coming or tested.has_work():
        if coming:
            world.add(*coming.pop(0))
        everyone = [*tested.running, *tested.waiting]
        if everyone and data.draw(st.integers(0, 9)) == 0:
            tested.remove(data.draw(st.sampled_from(everyone)))
        if tested.has_work():
            assert world.step(), "has_work promises a step that does something"
        steps += 1
        assert steps < 60 * 12 * 12, "sequences that never end"
    assert not tested.running
    assert not tested.waiting
    check_blocks(tested.blocks, [])
    assert tested.num_prefix_hits <= tested.num_prefix_queries


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.randoms(use_true_random=False), st.integers(1, 5))
def test_batches_run_to_completion_one_after_the_other(
    sizes: list[int], shuffle: random.Random, max_sequences: int
) -> None:
    world = World.of(max_sequences=max_sequences)
    members = [(batch, size) for batch, size in enumerate(sizes) for _ in range(size)]
    shuffle.shuffle(members)
    batch_of: dict[int, int] = {}
    arrived: dict[int, int] = dict.fromkeys(range(len(sizes)), 0)
    order: list[int] = []
    for key in range(10_000):
        if members:
            batch, size = members.pop()
            arrived[batch] += 1
            batch_of[key] = batch
            world.add(sequence(key, key % 7 + 1, batch=batch, level=key % 2), key % 3 + 1, size)
        for one in world.step():
            current = batch_of[one]
            assert arrived[current] == sizes[current], "a batch starts when all its members are there"
            if current not in order:
                order.append(current)
            assert current == order[-1], "nothing joins a batch that runs"
        if len(world.ended) == sum(sizes):
            break
    assert sorted(order) == list(range(len(sizes)))
    assert not world.scheduler.has_work()


def test_a_member_that_is_refused_or_cancelled_does_not_hold_the_batch() -> None:
    world = World.of()
    first = sequence(1, 3, batch=7)
    world.add(first, batch_size=3)
    assert not world.scheduler.has_work()
    world.scheduler.remove(first)
    world.scheduler.expect(7, 3)
    world.add(sequence(2, 3, batch=7), batch_size=3)
    assert world.step() == {2: 3}


def test_further_answers_join_the_batch_that_runs() -> None:
    world = World.of()
    world.add(sequence(1, 3, batch=7), answer=2)
    world.add(sequence(3, 3, batch=8))
    assert world.step() == {1: 3}
    world.answers[2] = 1
    world.scheduler.join(sequence(2, 3, batch=7))
    assert world.step() == {1: 1, 2: 3}
    assert world.step() == {3: 3}


def test_decoding_goes_before_prompts() -> None:
    world = World.of(token_budget=8)
    world.add(sequence(1, 4), 5)
    world.step()
    world.add(sequence(2, 30))
    assert world.step() == {1: 1, 2: 7}


def test_prompts_beside_answers_have_a_budget_of_their_own() -> None:
    world = World.of(token_budget=20, mixed_prefill_tokens=3)
    world.add(sequence(1, 18), 5)
    assert world.step() == {1: 18}
    world.add(sequence(2, 5))
    assert world.step() == {1: 1, 2: 3}
    world.scheduler.limits.mixed_prefill_tokens = None
    assert world.step() == {1: 1, 2: 2}


def test_many_prompts_beside_few_answers_have_more_of_a_paced_step() -> None:
    world = World.of(token_budget=20, max_sequences=8)
    world.scheduler.limits.paced_prefill_tokens = 3
    world.add(sequence(1, 2), 9)
    assert world.step() == {1: 2}
    for key in range(2, 6):
        world.add(sequence(key, 6), 9)
    assert world.step() == {1: 1, 2: 6, 3: 6}  # four to one
    assert world.step() == {1: 1, 2: 1, 3: 1, 4: 3}


def test_prompts_that_find_no_seat_take_nothing_from_answers() -> None:
    world = World.of(token_budget=20, max_sequences=2)
    world.scheduler.limits.paced_prefill_tokens = 3
    world.add(sequence(1, 2), 9)
    world.step()
    for key in range(2, 9):
        world.add(sequence(key, 6), 9)
    assert world.step() == {1: 1, 2: 3}


def test_so_many_prompts_begin_in_one_step_and_no_more() -> None:
    world = World.of(max_prefills=2)
    for key in range(3):
        world.add(sequence(key, 3), 9)
    assert world.step() == {0: 3, 1: 3}
    assert world.step() == {0: 1, 1: 1, 2: 3}


def test_the_newest_gives_its_blocks_to_the_oldest() -> None:
    world = World.of(blocks=3, prefix_caching=False)
    world.add(sequence(1, 4), 20)
    world.add(sequence(2, 4), 20)
    world.step()
    assert world.step() == {1: 1}
    (waits,) = world.scheduler.waiting
    assert (waits.key, waits.num_pending) == (2, 5), "its first token stays and is not sampled again"
    assert world.scheduler.num_preemptions == 1


def test_an_urgent_one_takes_the_seat_of_the_least_urgent_until_that_has_waited_long_enough() -> None:
    world = World.of(max_sequences=2)
    world.add(sequence(1, 3, level=1), 99)
    world.add(sequence(2, 3, level=2, arrived=1), 99)
    world.step()
    world.add(sequence(3, 3, level=0, arrived=2), 99)
    assert world.step() == {1: 1, 3: 3}
    world.add(sequence(4, 3, level=0, arrived=AGING + 1), 99)
    assert world.step() == {1: 1, 3: 1}
    assert [one.key for one in world.scheduler.waiting] == [4, 2]


def test_an_urgent_one_takes_no_blocks_where_they_would_not_be_enough() -> None:
    world = World.of(blocks=5)
    world.add(sequence(1, 8, level=0), 5)
    world.add(sequence(2, 4, level=1), 4)
    world.step()
    world.add(sequence(3, 16, level=0, arrived=1))
    assert world.step() == {1: 1, 2: 1}
    assert world.scheduler.num_preemptions == 0


def test_a_prompt_that_was_computed_before_is_found() -> None:
    world = World.of()
    world.add(sequence(1, list(range(10))), 3)
    world.step()
    world.add(sequence(2, [*range(10), 77]))
    assert world.step() == {1: 1, 2: 3}
    assert (world.scheduler.num_prefix_queries, world.scheduler.num_prefix_hits) == (21, 8)


def test_of_a_prompt_that_is_all_there_one_block_is_computed_again_to_sample_the_next_token() -> None:
    world = World.of()
    world.add(sequence(1, list(range(8))))
    world.step()
    world.add(sequence(2, list(range(8))))
    assert world.step() == {2: 4}


def test_one_that_gave_its_place_away_finds_what_it_had() -> None:
    world = World.of(max_sequences=1)
    world.add(sequence(1, 9, level=1), 5)
    world.step()
    world.add(sequence(2, 3, level=0, arrived=1))
    assert world.step() == {2: 3}
    assert world.step() == {1: 2}, "of its ten tokens two blocks are still there"
