"""Computes `aiconfigurator.csv` again: `python -m benchmarks.tritune.reference PROGRAM > aiconfigurator.csv`.

`PROGRAM` is the `aiconfigurator` command of an environment of its own (`pip install aiconfigurator==0.12.0`; its
dependencies do not go with the project's). It runs without a network.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Final

CONCURRENCIES: Final = (4, 8, 16, 24, 32, 40, 48, 64, 96, 128)
MODEL: Final = "meta-llama/Meta-Llama-3.1-8B"
HEADER: Final = """# Llama-3.1-8B on one A100-SXM-80GB, vLLM 0.14, 1155 prompt and 211 output tokens, by concurrency.
# Computed with aiconfigurator 0.12.0 (NVIDIA, Apache-2.0), cli estimate --estimate-mode agg, by reference.py.
concurrency,requests_per_second,itl_ms,ttft_ms"""


def estimate(program: str, concurrency: int) -> str:
    """One line of the table. Raises CalledProcessError when the program fails."""
    command = [program, "cli", "estimate", "--estimate-mode", "agg", "--model-path", MODEL, "--system", "a100_sxm"]
    command += ["--backend", "vllm", "--isl", "1155", "--osl", "211", "--batch-size", str(concurrency), "--no-color"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    names = (r"seq/s", r"TPOT", r"TTFT")
    values = [re.search(rf"{name}:\s+([0-9.]+)", text) for name in names]
    return ",".join([str(concurrency), *(value.group(1) if value else "" for value in values)])


if __name__ == "__main__":
    print(HEADER)
    for each in CONCURRENCIES:
        print(estimate(sys.argv[1], each), flush=True)
