"""The torch engine in process, without Triton and gate, driven as its server drives it: `torch_driver FOLDER DTYPE`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.serving.driver import Run, Sender, serve
from benchmarks.serving.workload import Answer, Job, Load
from llmserving.engine import Request, SamplingParameters
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions

MAX_SEQUENCES = 64
CACHE_BLOCKS = 3_000  # about the gigabyte that vLLM gets


def prepare() -> Run:
    """The engine over the folder of the command line."""
    options = EngineOptions(
        Path(sys.argv[1]),
        dtype=sys.argv[2],
        max_sequences=MAX_SEQUENCES,
        max_length=2048,
        max_batch_tokens=2048,
        cache_blocks=CACHE_BLOCKS,
    )
    engine = TorchEngine(options)
    return lambda load: _run(engine, load)


def _run(engine: TorchEngine, load: Load) -> list[Answer]:
    answers = [Answer(0.0) for _ in load.jobs]
    sender = Sender(load)
    while not sender.done():
        for index in sender.due():
            answers[index].sent = sender.now()
            engine.add(_request(index, load.jobs[index]))
        if not engine.has_work():
            time.sleep(sender.wait() or 0.0)
            continue
        for output in engine.step():
            if output.error:
                raise RuntimeError(output.error)
            answers[output.key].times += [sender.now()] * len(output.token_ids)
            if output.finish_reason is not None:
                sender.answered()
    return answers


def _request(index: int, job: Job) -> Request:
    sampling = SamplingParameters(max_tokens=job.output_tokens, temperature=0.0, ignore_eos=True)
    return Request(index, prompt=job.prompt(), sampling=sampling)


if __name__ == "__main__":
    serve(prepare)
