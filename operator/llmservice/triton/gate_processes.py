"""How many gate processes live in a server, and so whether a replaced gate is gone.

Triton keeps a replaced gate until its streams end and names it nowhere. The gate itself labels its series with an
`instance` of its own per process, and Triton drops the series when the process goes.
"""

from __future__ import annotations

from typing import Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.triton.errors import ErrorCode, TritonError

GATE_SERIES: Final = "llm_gate_held_requests"
_READ_SECONDS: Final = 5.0


def gate_processes(metrics_page: str, gate: str) -> int:
    """Processes of the model `gate` that export `GATE_SERIES`; 0 before the first export."""
    return len(
        {
            sample.labels.get("instance", "")
            for family in text_string_to_metric_families(metrics_page)
            if family.name == GATE_SERIES
            for sample in family.samples
            if sample.labels.get("model") == gate
        }
    )


async def old_gate_gone(session: aiohttp.ClientSession, metrics_url: str, gate: str) -> bool:
    """Whether exactly the processes of one gate live. Raises TritonError when the metrics page cannot be read."""
    call = f"metrics at {metrics_url}"
    try:
        async with session.get(metrics_url, timeout=aiohttp.ClientTimeout(_READ_SECONDS)) as response:
            response.raise_for_status()
            page = await response.text()
    except TimeoutError as error:
        raise TritonError(ErrorCode.DEADLINE_EXCEEDED, f"no answer in {_READ_SECONDS:g} s", call) from error
    except aiohttp.ClientError as error:
        raise TritonError(ErrorCode.UNAVAILABLE, str(error), call) from error
    return gate_processes(page, gate) == GATE_INSTANCES
