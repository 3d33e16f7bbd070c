"""10,000 random requests through the torch engine, with cancellations and deadlines: `make bench-soak`.

Each is answered to its end exactly once, no block stays taken, nothing is left waiting, and memory does not grow. The
model is tiny and random; the cache is so small that sequences give way to others all the time.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import Figures, quick
from llmserving.engine import FinishReason, Output, Request, SamplingParameters
from llmserving.parameters import Mode
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions

REQUESTS = 10_000
LIVE = 40
"""Requests inside the engine at a time: more than its seats."""
CANCELLED, WITH_DEADLINE = 0.1, 0.15
STUCK_STEPS = 5_000
GROWTH_LIMIT_MB = 8.0


@dataclass
class Soak:
    """Sends random requests and keeps account of what comes back. `now` is the engine's clock, one second a step."""

    engine: TorchEngine
    chance: random.Random
    now: Callable[[], float]
    ends: dict[FinishReason, int] = field(default_factory=dict)
    sent: int = 0
    wrong: int = 0
    _batch: int = 0
    _live: dict[int, int] = field(default_factory=dict)  # answers that have not ended
    _since: dict[int, float] = field(default_factory=dict)

    def run(self, requests: int) -> None:
        """Sends `requests` more and steps until all have ended. Raises RuntimeError when one is stuck."""
        last = self.sent + requests
        while self.sent < last or self._live:
            while self.sent < last and len(self._live) < LIVE:
                self._send(min(self.chance.randint(1, 4), last - self.sent))
            if self._live and self.chance.random() < CANCELLED:
                self.engine.cancel(self.chance.choice(list(self._live)))
            if not self.engine.has_work():
                raise RuntimeError(f"{len(self._live)} requests are left and the engine has nothing to do")
            for output in self.engine.step():
                self._take(output)
            stuck = [key for key, since in self._since.items() if self.now() - since > STUCK_STEPS]
            if stuck:
                raise RuntimeError(f"the requests {stuck} do not end")

    def _send(self, size: int) -> None:
        """Requests that a gate would send as one batch."""
        self._batch += 1
        for request in self._requests(size):
            self._live[request.key] = request.sampling.n
            self._since[request.key] = self.now()
            self.engine.add(request)

    def _requests(self, size: int) -> Iterator[Request]:
        chance = self.chance
        for _ in range(size):
            self.sent += 1
            text = "system " * chance.choice([0, 0, 1, 3]) + "x" * chance.choice([0, 1, 5, 20, 60, 150, 300])
            soon = self.now() + chance.randint(0, 40)
            yield Request(
                self.sent,
                prompt=text,
                sampling=SamplingParameters(
                    max_tokens=chance.randint(1, 24),
                    temperature=chance.choice([0.0, 0.7, 1.5]),
                    top_p=chance.choice([0.0, 0.5, 0.9, 1.0, 1.0, 1.0]),  # 0 is refused
                    top_k=chance.choice([0, 0, 5]),
                    min_p=chance.choice([0.0, 0.0, 0.1]),
                    seed=chance.choice([None, self.sent]),
                    stop=chance.choice([(), ("a", "the")]),
                    min_tokens=chance.choice([0, 0, 3]),
                    repetition_penalty=chance.choice([1.0, 1.0, 1.2]),
                    presence_penalty=chance.choice([0.0, 0.0, 0.5]),
                    logprobs=chance.choice([None, None, 2]),
                    n=chance.choice([1, 1, 1, 3]),
                ),
                priority=chance.randint(1, 3),
                batch=self._batch,
                batch_size=size,
                deadline=soon if chance.random() < WITH_DEADLINE else None,
            )

    def _take(self, output: Output) -> None:
        left = self._live.get(output.key)
        if left is None:
            self.wrong += 1  # something after the end
            return
        reason = output.finish_reason
        if reason is None:
            return
        self.ends[reason] = self.ends.get(reason, 0) + 1
        whole = reason in (FinishReason.CANCELLED, FinishReason.ERROR)
        self._live[output.key] = 0 if whole else left - 1
        if output.ends_request is not (self._live[output.key] == 0):
            self.wrong += 1
        if output.ends_request:
            del self._live[output.key], self._since[output.key]


def soak(folder: Path, mode: Mode, seed: int) -> Soak:
    """A soak of a fresh engine with a small cache. Its clock counts the times it was looked at, in thousandths."""
    looks = [0.0]

    def now() -> float:
        looks[0] += 0.25
        return looks[0]

    options = EngineOptions(
        folder, mode, max_sequences=12, max_batch_tokens=48, cache_blocks=80, block_size=4, threads=1, device="cpu"
    )
    return Soak(TorchEngine(options, clock=now), random.Random(seed), lambda: looks[0])


def resident_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Prints and writes the figures."""
    from tests.unit.torch_engine.tiny import make_model, write_tokenizer

    figures = Figures("engine_soak")
    requests = REQUESTS // 10 if quick() else REQUESTS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model("llama").save_pretrained(folder)
        write_tokenizer(folder)
        for mode in (Mode.CONTINUOUS, Mode.DYNAMIC):
            _soak_mode(figures, soak(folder, mode, seed=7), mode, requests)
    print(f"written to {figures.write()}")


def _soak_mode(figures: Figures, tested: Soak, mode: Mode, requests: int) -> None:
    of = mode.value.lower()
    started = time.monotonic()
    tested.run(requests // 5)
    gc.collect()
    warm = resident_mb()
    tested.run(requests - requests // 5)
    gc.collect()
    grown = resident_mb() - warm
    status = tested.engine.status()
    figures.add(f"soak_requests_{of}", tested.sent, "requests", requests, "higher")
    figures.add(f"soak_wrong_ends_{of}", tested.wrong, "answers", 0)
    figures.add(f"soak_blocks_left_{of}", status.kv_cache_usage, "share", 0)
    figures.add(f"soak_sequences_left_{of}", status.waiting + status.running, "sequences", 0)
    figures.add(f"soak_memory_growth_{of}", grown, "MB", GROWTH_LIMIT_MB)
    figures.add(f"soak_preemptions_{of}", status.preemptions, "sequences")
    figures.add(f"soak_prefix_hits_{of}", status.prefix_cache_hits / max(status.prefix_cache_queries, 1), "share")
    for reason, count in sorted(tested.ends.items()):
        figures.add(f"soak_ended_{reason.value}_{of}", count, "answers")
    figures.add(f"soak_seconds_{of}", time.monotonic() - started, "s")


if __name__ == "__main__":
    main()
