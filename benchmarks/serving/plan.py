"""Which loads run, by whom, in which order: rounds in which the contenders take turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.serving.contender import Contender, Result
from benchmarks.serving.workload import Load, fixed, long_prompts, mixed, open_loop

STREAMS = (1, 4, 16, 32, 64)
OPEN_SHARE = 0.7  # of what the torch engine gave in the closed loop


@dataclass(frozen=True)
class Case:
    """One load, as the rounds vary it, and who runs it."""

    name: str
    contenders: tuple[str, ...]
    kind: str
    streams: int

    def load(self, round_: int, *, short: bool) -> Load:
        """The load of a round: of the same shape, with other words, since an engine may remember prefixes."""
        seed = 100_000 * (round_ + 1) + 1_000 * self.streams
        if self.kind == "long":
            return long_prompts(4, 120, 6, 1_000, seed)
        jobs = 1 if short else 2
        make = fixed if self.kind == "fixed" else mixed
        # Lengths that vary need many jobs before two rounds ask for alike amounts.
        return make(self.streams, jobs if self.kind == "fixed" else 3 * jobs, seed=seed)


CASES = (
    *(Case(f"fixed_{n}", ("torch", "vllm"), "fixed", n) for n in STREAMS if n != 16),
    Case("fixed_16", ("torch", "vllm", "generate", "torch-none", "torch-dynamic", "torch-static"), "fixed", 16),
    Case("mixed_16", ("torch", "vllm", "generate", "torch-none", "torch-dynamic", "torch-static"), "mixed", 16),
    Case("long_prompts", ("torch", "vllm"), "long", 4),
)


@dataclass
class Rounds:
    """Results by case and contender, one for each round."""

    results: dict[tuple[str, str], list[Result]] = field(default_factory=dict)

    def ratios(self, case: str, one: str, other: str) -> list[float]:
        """Tokens per second of one contender over those of the other, round by round."""
        pairs = zip(self.results[case, one], self.results[case, other], strict=True)
        return [a.tokens_per_second / b.tokens_per_second for a, b in pairs]

    def has(self, case: str, *contenders: str) -> bool:
        """Whether all of them ran the case."""
        return all((case, contender) in self.results for contender in contenders)


def run(contenders: dict[str, Contender], rounds: int, *, short: bool) -> Iterator[tuple[str, str, Result, Rounds]]:
    """Runs all cases `rounds` times; every second round in the opposite order. Gives each result as it comes."""
    done = Rounds()
    for name, contender in contenders.items():
        contender.run(fixed(4, 1, tokens=16, seed=len(name)))  # the first load of a process is slower
    for round_ in range(rounds):
        for case in CASES:
            present = [name for name in case.contenders if name in contenders]
            for name in present if round_ % 2 == 0 else present[::-1]:
                load = case.load(round_, short=short)
                if name == "torch-none":
                    load = Load(load.name, load.jobs[: max(16, len(load.jobs) // 4)], load.streams)
                result = contenders[name].run(load)
                done.results.setdefault((case.name, name), []).append(result)
                yield case.name, name, result, done
        torch = done.results["fixed_16", "torch"][-1]
        rate = OPEN_SHARE * torch.tokens_per_second / 64
        for name in ("torch", "vllm"):
            if name in contenders:
                result = contenders[name].run(open_loop(fixed(16, 2, seed=round_), rate, round_))
                done.results.setdefault(("open", name), []).append(result)
                yield "open", name, result, done
