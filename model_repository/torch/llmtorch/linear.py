"""Matrices of the model: on a CPU laid out once for oneDNN, elsewhere as they are."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

# Rows the layout is chosen for. On AVX-512 and AMX one layout was fastest or within noise of it for 1 to 512 rows.
PACKED_FOR_ROWS = 16
PACKED_DTYPES = (torch.float32, torch.bfloat16)

# The operators that torch's own compiler calls (torch/_inductor/fx_passes/mkldnn_fusion.py); there are no public ones.
_pack = torch.ops.mkldnn._reorder_linear_weight  # noqa: SLF001
_linear = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001
_linear_plus = torch.ops.mkldnn._linear_pointwise.binary  # noqa: SLF001


class Linear:
    """`x @ weight.T + bias` with `weight` `[out, in]`.

    oneDNN's blocked layout reads a weight a third faster than rows do where memory is the bound.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self._bias = bias
        self._packed = can_pack(weight)
        self._weight = _pack(weight, PACKED_FOR_ROWS) if self._packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        """X `[T, in]` -> `[T, out]`."""
        if not self._packed:
            return linear(x, self._weight, self._bias)
        out: Tensor = _linear(x, self._weight, self._bias, "none", [], "")
        return out

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """The same with `residual` `[T, out]` added, rounded once where the weight is packed."""
        if not self._packed:
            return residual + linear(x, self._weight, self._bias)
        out: Tensor = _linear_plus(x, residual, self._weight, self._bias, "add")
        return out


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN takes the weight: on a CPU, in a type it has a fast kernel for."""
    there = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return there and weight.device.type == "cpu" and weight.dtype in PACKED_DTYPES
