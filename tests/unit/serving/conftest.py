"""Gates and engines that meet in a folder of their own, in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving.clients import meeting_place
from tests.serving.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Its engine stands still until `go`."""
    with meeting_place() as place:
        made = Stage(place)
        yield made
        made.close()


@pytest.fixture
def running(stage: Stage) -> None:
    """The engine of the stage goes from the beginning."""
    stage.go.set()
