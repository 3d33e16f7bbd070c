"""What a past comes to."""

from __future__ import annotations

import numpy as np
import pytest

from llmservice.tuning.simulator.history import History, HistoryError
from llmservice.tuning.simulator.kinds import BatchKind, TokenKind

pytestmark = pytest.mark.unit


def past(**changes: object) -> History:
    random = np.random.default_rng(1)
    sizes = np.array([1.0, 2.0, 8.0])
    steps = random.integers(50, 200, (10, 3)).astype(float)
    prompts = random.integers(1000, 90000, 10).astype(float)
    seconds = steps * (0.010 + 0.001 * sizes)
    content: dict[str, object] = {
        "window": 60.0,
        "arrivals": np.full(10, 120.0),
        "completed": np.full(10, 118.0),
        "prompt_tokens": prompts,
        "generated_tokens": np.full(10, 118.0 * 50),
        "sizes": sizes,
        "steps": steps,
        "step_seconds": seconds,
    }
    return History(**{**content, **changes})  # type: ignore[arg-type]


def test_rates_with_holes_filled() -> None:
    arrivals = np.full(10, 120.0)
    arrivals[3:5] = np.nan
    arrivals[6:] = 240
    series = past(arrivals=arrivals).series()
    assert series.rates.tolist() == [2.0] * 6 + [4.0] * 4


def test_a_past_begins_with_the_service_and_ends_with_it() -> None:
    """What comes first is no rate of the days before it: those were of no service."""
    arrivals = np.full(10, np.nan)
    arrivals[4:8] = [120, np.nan, 240, 240]
    assert past(arrivals=arrivals).series().rates.tolist() == [2.0, 3.0, 4.0, 4.0]


def test_a_past_without_requests_is_told() -> None:
    with pytest.raises(HistoryError, match="no requests"):
        past(arrivals=np.full(10, np.nan)).series()


def test_mean_lengths() -> None:
    tokens = past().tokens()
    assert tokens.mean_output == pytest.approx(50)


def test_an_engine_whose_batches_run_to_completion() -> None:
    kind = past(completed=np.full(10, 1e9)).kind(64, continuous=False)
    assert isinstance(kind, BatchKind)
    assert (kind.overhead, kind.per_request) == pytest.approx((0.010, 0.001))
    assert kind.max_batch == 64


def test_an_engine_with_continuous_batching() -> None:
    whole = past()
    seconds = whole.step_seconds.copy()
    seconds[:, 0] += whole.prompt_tokens * 0.0001
    kind = past(step_seconds=seconds).kind(32, continuous=True)
    assert isinstance(kind, TokenKind)
    assert kind.steps[0][0] == pytest.approx(0.011)
    assert kind.steps[1][0] == pytest.approx(0.010 + 0.032)
    assert kind.prompt_seconds[1] == pytest.approx(0.010 + 0.0001 * 8192)


def test_an_engine_that_did_nothing_is_told() -> None:
    with pytest.raises(HistoryError, match="0 steps"):
        past(steps=np.zeros((10, 3)), step_seconds=np.zeros((10, 3))).kind(8, continuous=True)


def test_lengths_that_no_model_takes_are_told() -> None:
    with pytest.raises(HistoryError, match="answer tokens a request, which no model takes"):
        past(generated_tokens=np.full(10, 1e30)).tokens()
