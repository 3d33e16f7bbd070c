"""How property tests draw: at random on a person's machine, the same every time in continuous integration.

Time limits of single examples are left out: a busy machine would fail them.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

from tests.sharing import ByCluster

settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("project")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster:
    """Asked where a tier runs in several processes (`-n`)."""
    return ByCluster(config, log)
