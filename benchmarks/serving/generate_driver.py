"""transformers' `generate` over static batches of `streams` jobs: `generate_driver FOLDER DTYPE`.

A batch runs until its longest answer is there, and all of its answers come then.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.serving.driver import Run, serve
from benchmarks.serving.workload import Answer, Load


def prepare() -> Run:
    """Model and tokenizer of the folder of the command line."""
    folder, dtype = Path(sys.argv[1]), getattr(torch, sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return lambda load: _run(model, tokenizer, load)


@torch.inference_mode()
def _run(model: Any, tokenizer: Any, load: Load) -> list[Answer]:
    start = time.perf_counter()
    answers: list[Answer] = []
    for first in range(0, len(load.jobs), load.streams):
        jobs = load.jobs[first : first + load.streams]
        inputs = tokenizer([job.prompt() for job in jobs], return_tensors="pt", padding=True)
        longest = max(job.output_tokens for job in jobs)
        model.generate(**inputs, max_new_tokens=longest, min_new_tokens=longest, do_sample=False)
        ended = time.perf_counter() - start
        answers += [Answer(0.0, [ended] * job.output_tokens) for job in jobs]
    return answers


if __name__ == "__main__":
    serve(prepare)
