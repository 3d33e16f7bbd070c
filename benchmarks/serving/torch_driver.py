"""The torch engine in process, driven as its server drives it: `torch_driver FOLDER [MODE]`."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

from benchmarks.serving.driver import Run, Sender, serve
from benchmarks.serving.workload import Answer, Load
from llmserving.engine import Request, SamplingParameters
from llmserving.parameters import Mode
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions

MAX_SEQUENCES = 64
BATCH = 16
CACHE_BLOCKS = 3_000  # about the gigabyte that vLLM gets


def prepare() -> Run:
    """The engine in the mode of the command line."""
    mode = Mode(sys.argv[2]) if len(sys.argv) > 2 else Mode.CONTINUOUS
    sequences = BATCH if mode.runs_batches else MAX_SEQUENCES
    options = EngineOptions(
        Path(sys.argv[1]), mode, max_sequences=sequences, max_length=2048, cache_blocks=CACHE_BLOCKS
    )
    engine = TorchEngine(options)
    batches = itertools.count(1)
    return lambda load: _run(engine, mode, batches, load)


def _run(engine: TorchEngine, mode: Mode, batches: itertools.count[int], load: Load) -> list[Answer]:
    answers = [Answer(0.0) for _ in load.jobs]
    sender = Sender(load)
    waiting: list[int] = []
    sent = 0
    while not sender.done():
        for index in sender.due():
            answers[index].sent = sender.now()
            waiting.append(index)
            sent += 1
        if waiting and _may_start(engine, mode, waiting, len(load.jobs) - sent):
            batch = next(batches) if mode.runs_batches else None
            for index in waiting[:BATCH] if batch else waiting:
                engine.add(_request(load, index, batch, min(BATCH, len(waiting))))
            waiting = waiting[BATCH:] if batch else []
        if not engine.has_work():
            time.sleep(sender.wait())
            continue
        for output in engine.step():
            if output.error:
                raise RuntimeError(output.error)
            answers[output.key].times += [sender.now()] * len(output.token_ids)
            if output.finish_reason is not None:
                sender.answered()
    return answers


def _may_start(engine: TorchEngine, mode: Mode, waiting: list[int], to_come: int) -> bool:
    """As the gate forms batches: `Static` full ones, `Dynamic` what is there when the engine is free."""
    if not mode.runs_batches:
        return True
    if engine.has_work():
        return False
    return mode is Mode.DYNAMIC or len(waiting) >= BATCH or to_come == 0


def _request(load: Load, index: int, batch: int | None, size: int) -> Request:
    job = load.jobs[index]
    sampling = SamplingParameters(max_tokens=job.output_tokens, temperature=0.0, ignore_eos=True)
    return Request(index, prompt=job.prompt(), sampling=sampling, batch=batch, batch_size=size)


if __name__ == "__main__":
    serve(prepare)
