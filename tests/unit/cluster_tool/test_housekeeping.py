"""Pruning removes what was built for other sources, and nothing else."""

from __future__ import annotations

import pytest

from cluster import housekeeping
from cluster.settings import Settings

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def cache(settings: Settings) -> None:
    """A cache with one folder of each kind: current, old, half-built, and somebody else's."""
    for path in housekeeping.current(settings):
        path.mkdir(parents=True)
    for name in ("kubernetes-000000000000", ".serving-000000000000.partial", "base-context", "notes"):
        (settings.cache / name).mkdir()


def names(settings: Settings) -> set[str]:
    return {path.name for path in settings.cache.iterdir() if path.name != "locks"}


def test_old_and_half_built_folders_go(settings: Settings) -> None:
    kept = {path.name for path in housekeeping.current(settings)} | {"base-context", "notes"}
    housekeeping.prune(settings)
    assert names(settings) == kept


def test_everything_that_was_built_goes_on_request_and_foreign_files_stay(settings: Settings) -> None:
    housekeeping.prune(settings, everything=True)
    assert names(settings) == {"notes"}


def test_every_tool_has_a_place_in_the_list(settings: Settings) -> None:
    assert all(path.name.startswith(housekeeping.BUILT) for path in housekeeping.current(settings))
