"""Do long prompts stall the answers beside them? Time between tokens with and without a bound on prompts in a step.

Run as `python -m benchmarks.engine_stall`, with `QUICK=1` for one round. Streams decode while prompts of 1,000 tokens
come, each some steps after the one before has its first token. The engine is in this process, on one thread, and time
is that of the processor, the engine's own clock too: other work on the machine then stretches no figure except through
the memory they share. And what the bound costs sixteen requests that come together, of which one is begun before the
others. `paced` is the engine as it is, `whole` computes prompts as the token budget lets it, in turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.figures import Figures, Size, quick, size
from benchmarks.model import smollm2
from benchmarks.serving.workload import Job, percentile
from llmserving.engine import Request, SamplingParameters
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions

STREAMS = (4, 16)
PROMPT_TOKENS = 1_000
PROMPTS = 4
STEPS_BETWEEN = 12
"""Of decoding alone, from the first token of a prompt until the next prompt: so the median is one without prompts."""
WARM_STEPS = 8
TOGETHER = 16
TOGETHER_ROUNDS = 5
TOGETHER_TOKENS = 64
"""Of prompt and answer."""
ROUNDS = 3
GOAL = 3.0
BUDGET = 2_048
SETTINGS: dict[str, int | None] = {"paced": None, "whole": BUDGET}


@dataclass
class Seen:
    """Milliseconds between tokens of the streams, those of steps without prompts, and until prompts' first tokens."""

    gaps: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    first_tokens: list[float] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        """Adds what another round saw."""
        self.gaps += other.gaps
        self.alone += other.alone
        self.first_tokens += other.first_tokens


class Watched:
    """An engine with streams that decode all the time."""

    def __init__(self, engine: TorchEngine, streams: int, seed: int) -> None:
        self._engine = engine
        self._keys = range(streams)
        self._seed = seed
        sampling = SamplingParameters(max_tokens=100_000, temperature=0.0, ignore_eos=True)
        for key in self._keys:
            engine.add(Request(key, prompt=Job(8, 1, seed + key).prompt(), sampling=sampling))
        for _ in range(WARM_STEPS):
            engine.step()

    def run(self, prompts: int, prompt_tokens: int) -> Seen:
        """What the streams see while `prompts` come one after the other."""
        seen = Seen()
        for number in range(prompts):
            for _ in range(STEPS_BETWEEN):
                seen.alone.append(self._step(None)[0])
            seen.gaps += seen.alone[-STEPS_BETWEEN:]
            job = Job(prompt_tokens, 1, self._seed + 1_000 + number)
            key = 10_000 + number
            sampling = SamplingParameters(max_tokens=1, temperature=0.0, ignore_eos=True)
            self._engine.add(Request(key, prompt=job.prompt(), sampling=sampling))
            waited, there = 0.0, False
            while not there:
                milliseconds, there = self._step(key)
                seen.gaps.append(milliseconds)
                waited += milliseconds
            seen.first_tokens.append(waited)
        for key in self._keys:
            self._engine.cancel(key)
        while self._engine.has_work():
            self._engine.step()
        return seen

    def _step(self, awaited: int | None) -> tuple[float, bool]:
        """Milliseconds of a step, and whether it gave the awaited token."""
        started = time.process_time()
        outputs = self._engine.step()
        milliseconds = (time.process_time() - started) * 1e3
        return milliseconds, any(output.key == awaited for output in outputs)


def tokens_per_second_together(engine: TorchEngine, seed: int) -> float:
    """Output tokens by a second of the processor, of requests of which one is a step ahead of the others."""
    sampling = SamplingParameters(max_tokens=TOGETHER_TOKENS, temperature=0.0, ignore_eos=True)
    jobs = [Job(TOGETHER_TOKENS, TOGETHER_TOKENS, seed + at) for at in range(TOGETHER)]
    started = time.process_time()
    for key, job in enumerate(jobs):
        engine.add(Request(key, prompt=job.prompt(), sampling=sampling))
        if key == 0:
            engine.step()
    while engine.has_work():
        engine.step()
    return TOGETHER * TOGETHER_TOKENS / (time.process_time() - started)


def tell(name: str, streams: int, seen: Seen, figures: Figures) -> float:
    """Adds the figures of one setting; returns its stall."""
    stall = percentile(seen.gaps, 0.99) / percentile(seen.gaps, 0.5)
    figures.add(f"stall_{name}_{streams}", stall, "ratio", GOAL if name == "paced" else None)
    figures.add(f"stall_{name}_{streams}_over_alone", percentile(seen.gaps, 0.99) / median(seen.alone), "ratio")
    figures.add(f"{name}_{streams}_step_alone", median(seen.alone), "ms")
    figures.add(f"{name}_{streams}_step_p99", percentile(seen.gaps, 0.99), "ms")
    figures.add(f"{name}_{streams}_first_token_of_prompts", median(seen.first_tokens), "ms")
    return stall


def median(values: Sequence[float]) -> float:
    """Of the values."""
    return statistics.median(values)


def main() -> None:
    """Measures and prints."""
    figures = Figures("engine_stall")
    smoke = size() is Size.SMOKE
    weights = smollm2()
    engines = {
        name: TorchEngine(
            EngineOptions(
                weights,
                max_sequences=32,
                max_length=2_048,
                max_batch_tokens=BUDGET,
                cache_blocks=2_000,
                prefix_caching=False,
                threads=1,
                max_prefill_tokens=tokens,
            ),
            clock=time.process_time,
        )
        for name, tokens in SETTINGS.items()
    }
    for streams in STREAMS[:1] if smoke else STREAMS:
        seen = {name: Seen() for name in SETTINGS}
        for number in range(1 if quick() else ROUNDS):
            for name, engine in engines.items():
                watched = Watched(engine, streams, seed=100_000 * (number + 1))
                seen[name].add(watched.run(1 if smoke else PROMPTS, 200 if smoke else PROMPT_TOKENS))
        stalls = {name: tell(name, streams, one, figures) for name, one in seen.items()}
        figures.add(f"stall_whole_over_paced_{streams}", stalls["whole"] / stalls["paced"], "times")
    ratios = []
    for number in range(1 if smoke else TOGETHER_ROUNDS):
        rates = {name: tokens_per_second_together(engine, 1_000 * (number + 1)) for name, engine in engines.items()}
        ratios.append(rates["paced"] / rates["whole"])
    figures.add(f"together_{TOGETHER}_paced_over_whole", median(ratios), "ratio")
    figures.write()


if __name__ == "__main__":
    main()
