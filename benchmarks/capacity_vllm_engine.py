"""Makes vLLM's engine as the driver does, in a memory of a given size: `capacity_vllm.py` runs it.

Prints the tokens of its cache, and the bytes that the process took before it loaded anything.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.control_group import MIB, control_group
from llmserving.host_memory import host_memory
from llmserving.parameters import Parameters
from llmvllm.environment import prepare
from llmvllm.options import EngineOptions


class Silent:
    """Takes vLLM's statistics and says nothing."""

    def record(self, *_: object) -> None:
        """See `llmvllm.statistics.Statistics`."""


def main(case: dict[str, int], weights: str) -> tuple[int, int]:
    """(tokens of the cache, bytes of this process before)."""
    options = EngineOptions.from_parameters(
        Parameters(
            {
                "model_path": weights,
                "max_sequences": str(case["sequences"]),
                "max_length": str(case["length"]),
                "memory_percent": str(case["percent"]),
                "dtype": "float32",
                "enforce_eager": "true",
            }
        )
    )
    prepare(options, os.environ)
    from llmvllm import start
    from llmvllm.core import Core

    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with tempfile.TemporaryDirectory() as folder:
        vars(start)["host_memory"] = lambda: host_memory(*control_group(Path(folder), case["limit"] * MIB))
        core = Core(start.for_this_host(options), Silent())  # type: ignore[arg-type]
    cache = core._llm.vllm_config.cache_config  # noqa: SLF001 - what it took is nobody else's business
    core.close()
    return cache.num_gpu_blocks * cache.block_size, resident


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]), sys.argv[2])))
