"""Continuous batching, by hand, with an engine whose every step takes 10 ms and whose prompts take 1 ms a token."""

from __future__ import annotations

import numpy as np
import pytest

from llmservice.tuning.simulator.kinds import TokenKind
from llmservice.tuning.simulator.replica import FINISH, FIRST, Pace, Replica, Setting, new_state
from llmservice.tuning.simulator.token_kernel import CONTEXT, TOKENS_DONE, TokenState

pytestmark = pytest.mark.unit

FLAT = TokenKind(
    sizes=(1, 8),
    contexts=(1, 1000),
    steps=((0.010, 0.010), (0.010, 0.010)),
    prompts=(10, 1000),
    prompt_seconds=(0.010, 1.000),
    max_sequences=4,
    max_prompt_tokens=64,
    kv_tokens=1000,
)


def served(requests: list[tuple[float, int, int]], kind: TokenKind = FLAT, slots: int = 4) -> list[tuple[float, float]]:
    """(first token, last token) of each request in milliseconds, by order of arrival."""
    replica = Replica("one", 0, 0, 0, Setting(0.0, 1, slots), new_state(kind, 1), jit=False)
    done = replica.advance(0.0, 60.0, np.array(requests, dtype=float), Pace(kind))
    done = done[np.argsort(done[:, 0], kind="stable")]
    return [(round(1000 * row[FIRST], 3), round(1000 * row[FINISH], 3)) for row in done]


def test_a_request_alone() -> None:
    assert served([(0.0, 20, 5)]) == [(20, 60)]


def test_one_token_ends_with_its_prompt() -> None:
    assert served([(0.0, 20, 1)]) == [(20, 20)]


def test_prompts_that_fit_go_in_one_step() -> None:
    assert served([(0.0, 20, 1), (0.0, 30, 1)]) == [(50, 50), (50, 50)]


def test_prompts_that_do_not_fit_follow() -> None:
    assert served([(0.0, 40, 1), (0.0, 30, 1)]) == [(40, 40), (70, 70)]


def test_a_prompt_holds_up_what_runs_and_still_gives_it_a_token() -> None:
    # The first has its second token at 20; the other came at 15, so its prompt runs from 20 to 40 and brings the third.
    assert served([(0.0, 10, 4), (0.015, 20, 1)]) == [(10, 50), (40, 40)]


def test_slots_limit_what_runs() -> None:
    assert served([(0.0, 10, 3), (0.0, 10, 1)], slots=1) == [(10, 30), (40, 40)]


def test_memory_limits_what_runs() -> None:
    small = TokenKind(**{**FLAT.__dict__, "kv_tokens": 25})
    assert served([(0.0, 10, 6), (0.0, 10, 6)], small) == [(10, 60), (70, 120)]


def test_an_advance_in_pieces_is_one_advance() -> None:
    random = np.random.default_rng(3)
    requests = np.column_stack(
        (np.sort(random.random(60) * 4), random.integers(5, 60, 60), random.integers(1, 30, 60))
    ).astype(float)
    whole = Replica("a", 0, 0, 0, Setting(0.0, 1, 4), new_state(FLAT, 1), jit=False)
    pieces = Replica("b", 0, 0, 0, Setting(0.0, 1, 4), new_state(FLAT, 1), jit=False)
    at_once = whole.advance(0.0, 30.0, requests, Pace(FLAT))
    parts = []
    for start in np.arange(0.0, 30.0, 0.5):
        mine = requests[(requests[:, 0] >= start) & (requests[:, 0] < start + 0.5)]
        parts.append(pieces.advance(start, start + 0.5, mine, Pace(FLAT)))
    together = np.concatenate(parts)
    assert len(together) == len(at_once) == 60
    together, at_once = (rows[np.argsort(rows[:, 0], kind="stable")] for rows in (together, at_once))
    np.testing.assert_allclose(together[:, FINISH], at_once[:, FINISH], atol=0.011)
    assert whole.empty
    assert pieces.empty


def test_what_runs_is_all_the_context_there_is() -> None:
    """What ends takes along all it brought: a little left behind each time made replicas slower by the day."""
    random = np.random.default_rng(4)
    times = np.sort(random.random(3000) * 600)
    requests = np.column_stack((times, random.integers(5, 60, 3000), random.uniform(1, 30, 3000)))
    one = Replica("one", 0, 0, 0, Setting(0.0, 1, 4), new_state(FLAT, 1), jit=False)
    for start in np.arange(0.0, 600.0, 0.7):
        mine = requests[(times >= start) & (times < start + 0.7)]
        one.advance(start, start + 0.7, mine, Pace(FLAT))
        state = one.state
        assert isinstance(state, TokenState)
        running = state.running[0]
        left = state.ends[:running] - state.scalars[TOKENS_DONE]
        of_each = state.sequences[:running, 2] + state.sequences[:running, 3] - left
        assert state.scalars[CONTEXT] == pytest.approx(of_each.sum(), abs=1e-3)


def test_what_has_its_last_token_does_not_wait_for_a_prompt_that_comes_next() -> None:
    # The prompt that came at 25 begins at 30, when the first request has its third and last token.
    assert served([(0.0, 10, 3), (0.025, 20, 1)]) == [(10, 30), (50, 50)]
