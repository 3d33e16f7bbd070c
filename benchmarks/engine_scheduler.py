"""What the torch engine's scheduler takes of a step at 256 sequences, without a model: `make bench-scheduler`.

A step is `schedule` plus `advance`, and what the engine does to the sequences between them: tokens are appended, those
that end leave, others come. Three loads: all decode; prompts arrive all the time; the cache is so small that sequences
give way and come again. Times are those of the processor, so that a busy machine does not count.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass

from benchmarks.figures import Figures, quick
from llmtorch.block_manager import BlockManager
from llmtorch.scheduler import Limits, Scheduler
from llmtorch.sequence import Sequence, rank

SEQUENCES = 256
TOKEN_BUDGET = 2048
BLOCK_SIZE = 16
STEPS = 2000
GOAL_MS = 1.0


@dataclass(frozen=True)
class Load:
    """Prompt and answer lengths in tokens, and the share of the cache that the sequences would fill."""

    name: str
    prompt: int
    answer: int
    cache: float = 2.0
    waiting: int = 0


LOADS = (
    Load("decode", prompt=64, answer=100_000),
    Load("mixed", prompt=256, answer=64, waiting=64),
    Load("small_cache", prompt=256, answer=256, cache=0.6, waiting=64),
)


class Plant:
    """A scheduler under a load, with as many sequences waiting at any time as the load says."""

    def __init__(self, load: Load) -> None:
        self._load = load
        length = load.prompt + min(load.answer, 2 * STEPS)
        blocks = max(int(SEQUENCES * length / BLOCK_SIZE * load.cache), 2 * length // BLOCK_SIZE)
        self.scheduler = Scheduler(BlockManager(blocks, BLOCK_SIZE), Limits(SEQUENCES, TOKEN_BUDGET))
        self._made = 0
        self._fill()
        while any(one.num_output == 0 for one in self.scheduler.running) or not self.scheduler.running:
            self.step()

    def step(self) -> float:
        """Processor seconds that one step took in the scheduler."""
        started = time.thread_time()
        chunks = self.scheduler.schedule()
        scheduled = time.thread_time()
        giving = [chunk.sequence for chunk in chunks if chunk.gives_token]
        resumed = time.thread_time()
        self.scheduler.advance(chunks)
        advanced = time.thread_time()
        for sequence in giving:
            sequence.tokens.append(sequence.key % 1000)
            if sequence.num_output >= self._load.answer - sequence.key % 13:
                self.scheduler.remove(sequence)
        self._fill()
        return scheduled - started + advanced - resumed

    def _fill(self) -> None:
        scheduler = self.scheduler
        while len(scheduler.running) + len(scheduler.waiting) < SEQUENCES + self._load.waiting:
            self._made += 1
            level = 1 + self._made % 3
            tokens = [self._made % 7] * 32 + list(range(self._made, self._made + self._load.prompt - 32))
            scheduler.add(Sequence(self._made, tokens, len(tokens), rank(self._made, level, 10.0, self._made), level))


def main() -> None:
    """Prints and writes the figures."""
    figures = Figures("engine_scheduler")
    steps = STEPS // 4 if quick() else STEPS
    plants = {load.name: Plant(load) for load in LOADS}
    times: dict[str, list[float]] = {name: [] for name in plants}
    gc.collect()
    for _ in range(steps):
        for name, plant in plants.items():  # side by side, so that a bad moment of the machine hits all
            times[name].append(plant.step())
    for name, plant in plants.items():
        seconds = sorted(times[name])
        figures.add(f"scheduler_step_{name}", 1000 * statistics.median(seconds), "ms", GOAL_MS)
        figures.add(f"scheduler_step_{name}_p99", 1000 * seconds[int(0.99 * len(seconds))], "ms", GOAL_MS)
        figures.add(f"scheduler_preemptions_{name}", plant.scheduler.num_preemptions, "sequences")
    print(f"written to {figures.write()}")


if __name__ == "__main__":
    main()
