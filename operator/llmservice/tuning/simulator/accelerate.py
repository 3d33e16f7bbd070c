"""The two inner loops, compiled by numba where it is installed; the same Python, some 100 times slower, where not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def available() -> bool:
    """Whether numba is installed; the operator's image does without."""
    return find_spec("numba") is not None


@cache
def _compiler() -> Callable[[Callable[..., object]], Callable[..., object]]:
    import numba

    compiler: Callable[[Callable[..., object]], Callable[..., object]] = numba.njit(cache=True, nogil=True)
    return compiler


@cache
def compiled(kernel: Kernel) -> Kernel:
    """`kernel` as machine code, or itself without numba. The first call compiles for seconds; the disk keeps it."""
    return _compiler()(kernel) if available() else kernel  # type: ignore[return-value]
