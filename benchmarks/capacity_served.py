"""Sequences that the plan promises, really served at once: a real engine with capped memory, each at full length.

The engine is made in a process of its own (`python -m benchmarks.capacity_served CASE`), as in `capacity_engine`. Every
request has a prompt of its own, so that no block is shared, and all grow to the planned length: the cache is then as
full as the plan says it may be, and a sequence too many would have to give way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.capacity_engine import EngineCase, made_engine, planned
from benchmarks.exact_prompt import prompt_of
from benchmarks.figures import ROOT
from llmserving.engine import FinishReason, Request, SamplingParameters
from llmserving.tokenizer import TextTokenizer

ANSWER_TOKENS: Final = 16
"""Every sequence ends at the planned length: its prompt is that much shorter."""

STEP_TOKENS: Final = 2048
"""Prompts are computed as fast as they can be, so that the first sequences have not ended when the last begin."""
SAMPLING: Final = SamplingParameters(max_tokens=ANSWER_TOKENS, ignore_eos=True, temperature=0.0)

CASES: Final = (
    EngineCase(1536, 90, 256, 512),
    EngineCase(1792, 90, 256, 1024),
    EngineCase(1536, 90, 256, 33),  # a token more than two blocks
)


@dataclass(frozen=True)
class Served:
    """What came of one case: sequences promised, inside the engine at once, answered, and pushed out meanwhile."""

    case: EngineCase
    promised: int
    at_once: int
    answered: int
    preempted: int

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return self.promised == self.at_once == self.answered and self.preempted == 0


def served() -> Iterator[Served]:
    """Every case, with a real engine each."""
    from benchmarks.greedy import SMOLLM2
    from llmserving.weights import prepare

    with tempfile.TemporaryDirectory() as folder:
        weights = prepare(SMOLLM2, Path(folder))
        for case in CASES:
            promised = planned(case).fitting_sequences
            asked = [json.dumps(asdict(case)), str(weights), str(promised)]
            command = [sys.executable, "-m", "benchmarks.capacity_served", *asked]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=dict(os.environ))
            at_once, answered, preempted = json.loads(done.stdout.splitlines()[-1])
            yield Served(case, promised, at_once, answered, preempted)


def serve(case: EngineCase, weights: Path, count: int) -> tuple[int, int, int]:
    """(sequences inside at once, requests answered to their length, preemptions) of `count` requests in one engine."""
    engine, tokenizer = made_engine(case, weights, STEP_TOKENS), TextTokenizer.load(weights)
    for key in range(count):
        engine.add(Request(key, prompt=prompt_of(tokenizer, key, case.length - ANSWER_TOKENS), sampling=SAMPLING))
    at_once = answered = preempted = 0
    while engine.has_work():
        outputs = engine.step()
        status = engine.status()
        ended = [output for output in outputs if output.finish_reason is FinishReason.LENGTH]
        lengths = {output.num_input_tokens + output.num_output_tokens for output in ended}
        if lengths - {case.length}:
            raise RuntimeError(f"sequences of {lengths} tokens ended instead of {case.length}: the case proves nothing")
        answered += len(ended)
        at_once = max(at_once, status.running + len(ended))
        preempted = status.preemptions
    return at_once, answered, preempted


if __name__ == "__main__":
    print(json.dumps(serve(EngineCase(**json.loads(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]))))
