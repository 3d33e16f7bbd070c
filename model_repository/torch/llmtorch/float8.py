"""FP8 (E4M3) and back, by bits: torch's own conversion on a CPU goes number by number.

Format: Micikevicius et al. 2022, https://arxiv.org/abs/2209.05433: one sign, four exponent bits with a bias of 7, three
of mantissa; the largest number is 448.
"""

from __future__ import annotations

import torch
from torch import Tensor

FP8 = torch.float8_e4m3fn
SCALE_DTYPE = torch.bfloat16
# The exponent and mantissa of E4M3 at their places in a bfloat16 mean a number smaller by the biases' difference.
BIAS_DIFFERENCE = 127 - 7
# Numbers below 2**8 have codes of full precision, up to 448.
LARGEST_EXPONENT = 8


def narrow(x: Tensor) -> tuple[Tensor, Tensor]:
    """Codes of `x` `[…, n]`, as bytes, and the factor `[…, 1]` of each row for `widen`."""
    _, exponents = torch.frexp(x.abs().amax(dim=-1, keepdim=True).float())
    shift = (exponents - LARGEST_EXPONENT).clamp(min=-120, max=7)  # so that the factor stays a bfloat16
    codes = torch.ldexp(x.float(), -shift).clamp(-448.0, 448.0).to(FP8).view(torch.uint8)
    factors = torch.ldexp(torch.ones_like(shift, dtype=torch.float32), shift + BIAS_DIFFERENCE)
    return codes, factors.to(SCALE_DTYPE)


def widen(codes: Tensor, factors: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers of `codes` `[…, n]` with the factors `[…, 1]`, in `dtype`. Exact in bfloat16 and float32."""
    bits = codes.view(torch.int8).to(torch.int16)  # the sign is where it belongs
    number = (bits & 0x7F).bitwise_left_shift_(4).bitwise_or_(bits & -0x8000)
    return number.view(torch.bfloat16).mul_(factors).to(dtype)
