"""FP8 by bits is torch's FP8."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llmtorch.float8 import BIAS_DIFFERENCE, FP8, narrow, widen

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_code_is_the_number_that_torch_says(dtype: torch.dtype) -> None:
    codes = torch.tensor([code for code in range(256) if code & 0x7F != 0x7F], dtype=torch.uint8)  # no NaN
    unscaled = torch.tensor([2.0**BIAS_DIFFERENCE]).bfloat16()
    assert torch.equal(widen(codes, unscaled, dtype), codes.view(FP8).to(dtype))


@settings(deadline=None)
@given(st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=8), st.integers(-30, 5))
def test_a_number_comes_back_within_a_sixteenth(numbers: list[float], power: int) -> None:
    x = torch.tensor([numbers]) * 2.0**power
    back = widen(*narrow(x), torch.float32)
    largest = x.abs().max()
    # Rounded to three bits of mantissa, or to the smallest step of the row's scale, or to 0 below what a scale can say.
    step = torch.clamp(largest * 2.0**-17, min=2.0**-120)
    assert bool(((back - x).abs() <= torch.maximum(x.abs() / 16, step)).all())


def test_numbers_too_small_for_any_scale_come_back_as_nothing() -> None:
    back = widen(*narrow(torch.tensor([[7.3468e-40, -7.3468e-40]])), torch.float32)
    assert back.tolist() == [[0.0, 0.0]]


def test_rows_have_scales_of_their_own() -> None:
    x = torch.tensor([[1e-6, 2e-6], [30000.0, 1.0], [0.0, 0.0]])
    back = widen(*narrow(x), torch.float32)
    torch.testing.assert_close(back, x, rtol=1 / 16, atol=0.0)
