"""Who takes part: started one after the other, and left out, with the reason kept, once it failed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks.figures import ROOT
from benchmarks.serving.contender import Contender, ContenderError, DriverProcess, Result
from benchmarks.serving.served import Served, TritonContender
from benchmarks.serving.workload import Load, fixed
from llmservice.api.batching import BatchingMode
from llmservice.api.engine import Backend

VLLM_PYTHON: Final = ROOT / ".venv-vllm" / "bin" / "python"
START_SECONDS: Final = 1200.0
"""vLLM compiles the model when it first meets a processor: minutes on two cores. Later starts take one."""
LOAD_SECONDS: Final = 300.0
"""A load that takes longer counts as hung."""
NAMES: Final = (
    "torch",
    "torch-none",
    "torch-dynamic",
    "torch-static",
    "torch-alone",
    "vllm",
    "vllm-triton",
    "generate",
)
"""`torch` and its modes are served by gate and Triton, as is `vllm-triton`; `torch-alone` and `vllm` are engines in
process, `generate` is that of transformers."""


class Roster:
    """`absent` says of each that does not take part any more why."""

    def __init__(self) -> None:
        self._present: dict[str, Contender] = {}
        self.absent: dict[str, str] = {}
        self.ready_seconds: dict[str, float] = {}

    def start(self, name: str, make: Callable[[], Contender]) -> None:
        """Starts one and runs a first load, since a process's first is slower."""
        try:
            self._present[name] = make()
        except (ContenderError, OSError) as error:
            self._left(name, error)
            return
        self.ready_seconds[name] = self._present[name].ready_seconds
        print(f"{name} is ready after {self.ready_seconds[name]:.1f} s", flush=True)
        streams = 1 if name == "torch-none" else 16
        self.run(name, fixed(streams, 1, tokens=8, seed=7_000_000))

    def present(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that take part."""
        return [name for name in names if name in self._present]

    def run(self, name: str, load: Load, limit_seconds: float = LOAD_SECONDS) -> Result | None:
        """What one made of the load; None when it failed over it, and is out from now on."""
        try:
            return self._present[name].run(load, limit_seconds)
        except ContenderError as error:
            self._left(name, error)
            return None

    def close(self) -> None:
        """Ends all, side by side: each waits for processes of its own."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: self._present.pop(name).close(), list(self._present)))

    def _left(self, name: str, error: Exception) -> None:
        print(f"{name} is out: {error}", file=sys.stderr, flush=True)
        self.absent[name] = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        if (gone := self._present.pop(name, None)) is not None:
            gone.close()


def maker(name: str, model: Path, logs: Path, dtype: str, *, eager: bool) -> Callable[[], Contender]:
    """Starts the contender of this name over the weights in `model`; `eager` keeps vLLM from compiling them first."""
    log = logs / f"{name}.log"
    if name in ("torch-alone", "vllm", "generate"):
        python = str(VLLM_PYTHON) if name == "vllm" else sys.executable
        module = f"benchmarks.serving.{name.removesuffix('-alone')}_driver"
        arguments = [str(model), dtype, *(["eager"] if eager and name == "vllm" else [])]
        return lambda: DriverProcess(name, [python, "-m", module, *arguments], log, START_SECONDS)
    if name == "vllm-triton":
        served = Served(Backend.VLLM, dtype=dtype, parameters={"enforce_eager": "true"} if eager else {})
    else:
        mode = name.removeprefix("torch").lstrip("-") or "continuous"
        served = Served(Backend.TORCH, BatchingMode(mode.capitalize()), dtype)
    return lambda: TritonContender(name, served, model, log, START_SECONDS)
