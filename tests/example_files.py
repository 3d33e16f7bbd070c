"""The examples, and the warnings that each is meant to show."""

from __future__ import annotations

from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parents[1] / "examples"

EXPECTED_WARNINGS: Final[dict[str, set[str]]] = {
    "smollm2.yaml": set(),
    "smollm2-dynamic.yaml": set(),
    "smollm2-static.yaml": set(),
    "smollm2-none.yaml": set(),
    "smollm2-vllm.yaml": set(),
    "smollm2-priorities.yaml": set(),
    "llama2-13b-a100.yaml": set(),
    "llama2-13b-claimed.yaml": set(),
    "llama2-13b-queued.yaml": set(),
    "llama3-405b-two-nodes.yaml": set(),
    "llama2-13b-vllm-nvidia.yaml": {"trap-driver-nvidia"},
    "llama3-8b-vllm-adapters.yaml": set(),
    "llama3-8b-tensorrtllm-pytorch.yaml": {"trap-driver-nvidia"},
    "llama2-13b-tensorrtllm.yaml": {"trap-driver-nvidia"},
}
