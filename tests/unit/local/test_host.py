"""The host: what it lacks is said at once, with the way to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmservice.api.engine import Backend
from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.local.errors import LocalError
from llmservice.local.host import host_fleet, require_serving
from llmservice.local.installation import Installation, TritonserverNotFoundError

pytestmark = pytest.mark.unit

FOUND = Installation(Path("/bin/tritonserver"), Path("/backends"))


def absent() -> Installation:
    raise TritonserverNotFoundError("no tritonserver found: not in PATH. Install one with: pip install …")


def test_a_host_with_everything_gives_its_tritonserver() -> None:
    assert require_serving(Backend.TORCH, has=lambda module: True, find=lambda: FOUND) is FOUND


def test_all_that_is_missing_is_one_error_with_the_extras_to_install() -> None:
    with pytest.raises(LocalError) as caught:
        require_serving(Backend.TORCH, has=lambda module: module not in ("torch", "jinja2"), find=absent)
    assert str(caught.value) == (
        "the torch engine needs the Python packages torch, jinja2; no tritonserver found: not in PATH. "
        "Install what is missing: pip install 'triton-llm-operator[serving,tritonserver]'"
    )


def test_a_tritonserver_for_another_python_is_not_told_to_install_one() -> None:
    def other() -> Installation:
        raise TritonserverNotFoundError("no Python stub for Python 3.9; use one of: 3.11")

    with pytest.raises(LocalError) as caught:
        require_serving(Backend.TORCH, has=lambda module: True, find=other)
    assert str(caught.value) == "no Python stub for Python 3.9; use one of: 3.11"


def test_packages_alone_may_be_missing() -> None:
    with pytest.raises(LocalError, match="needs the Python packages"):
        require_serving(Backend.TORCH, has=lambda module: False, find=lambda: FOUND)


def test_the_hosts_memory_is_that_of_a_pool_without_accelerators() -> None:
    fleet = FleetDefaults(pools={"cpu": Pool(), "small": Pool(memory="2Gi"), "gpu": Pool(resource="nvidia.com/gpu")})
    assert host_fleet(fleet, "cpu", 1000).pools["cpu"].memory == "1000"
    assert host_fleet(fleet, "unknown", 1000).pools["unknown"].memory == "1000"
    assert host_fleet(fleet, "small", 1000).pools["small"].memory == "2Gi"
    assert host_fleet(fleet, "gpu", 1000).pools["gpu"].memory is None
