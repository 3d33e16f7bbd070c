"""Why a tritonserver ended, in words, from its exit status and what it logged. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Final

from llmservice.diagnose.triton_log import model_failure

_SAID: Final = re.compile(r"llmservice: ending tritonserver: (?P<reason>.+)$", re.MULTILINE)
"""What a gate or engine writes before it ends its server on purpose (docs/decisions/0006)."""


@dataclass(frozen=True)
class Ending:
    """How a server ended. `explained` tells whether its log said why, so that nobody needs to read it."""

    cause: str
    explained: bool = True


def why_it_ended(log: str, status: int | None) -> Ending:
    """The cause, by the most exact line of `log` there is; `status` as in `subprocess.Popen.returncode`."""
    said = _SAID.findall(log)
    if said:
        return Ending(str(said[-1]).strip())
    failure = model_failure(log)
    if failure is not None:
        return Ending(f"model {failure.model}: {failure.text}" if failure.model else failure.text)
    if status is not None and status < 0:
        return Ending(f"killed by {signal.Signals(-status).name}", explained=False)
    return Ending(f"it exited with status {status}", explained=False)
