"""What the endpoint does for OpenAI's own client: cases that run on a fake gate and on a real tritonserver.

A case is a coroutine of what is served. All cases may share one server, so none leaves anything running.
"""

from __future__ import annotations

from tests.openai_contract import answers, refusals
from tests.openai_contract.adapters import ADAPTER, ADAPTER_CASES
from tests.openai_contract.registry import CASES, MODEL, Case, Served

__all__ = ["ADAPTER", "ADAPTER_CASES", "CASES", "MODEL", "Case", "Served", "answers", "refusals"]
