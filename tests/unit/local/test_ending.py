"""Why a server ended, by the most exact line of its log."""

from __future__ import annotations

import pytest

from llmservice.local.ending import Ending, why_it_ended
from llmservice.local.session import restart_pause

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("log", "status", "why"),
    [
        ("I… ready\nllmservice: ending tritonserver: a gate process died\nI… done\n", 0, Ending("a gate process died")),
        (
            "error: creating server: Internal - load failed for model 'chat-engine': version 1 is at UNAVAILABLE "
            "state: Internal: FileNotFoundError: no config.json;\n",
            1,
            Ending("model chat-engine: FileNotFoundError: no config.json"),
        ),
        ("", -9, Ending("killed by SIGKILL", explained=False)),
        ("", 3, Ending("it exited with status 3", explained=False)),
    ],
)
def test_the_cause_is_the_most_exact_there_is(log: str, status: int, why: Ending) -> None:
    assert why_it_ended(log, status) == why


def test_pauses_between_starts_double_up_to_half_a_minute() -> None:
    assert [restart_pause(failures) for failures in (1, 2, 3, 4, 5, 6, 60)] == [1, 2, 4, 8, 16, 30, 30]
