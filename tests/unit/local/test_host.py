"""The host: what it lacks is said at once, with the way to get it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from llmservice.api.engine import Backend
from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.local.errors import LocalError
from llmservice.local.host import absent_modules, beside, host_fleet, require_serving
from llmservice.local.installation import Installation, TritonserverNotFoundError

pytestmark = pytest.mark.unit

FOUND = Installation(Path("/bin/tritonserver"), Path("/backends"))


def nothing(python: Path, modules: Sequence[str]) -> Sequence[str]:
    return []


def everything(python: Path, modules: Sequence[str]) -> Sequence[str]:
    return modules


def no_tritonserver() -> Installation:
    raise TritonserverNotFoundError("no tritonserver found: not in PATH. Install one with: pip install …")


def test_a_host_with_everything_gives_its_tritonserver() -> None:
    found = require_serving(Backend.TORCH, absent=nothing, find=lambda: FOUND)
    assert (found.installation, found.python) == (FOUND, Path(sys.executable))


def test_all_that_is_missing_is_one_error_with_the_extras_to_install() -> None:
    with pytest.raises(LocalError) as caught:
        require_serving(Backend.TORCH, absent=lambda *_: ["torch", "jinja2"], find=no_tritonserver)
    assert str(caught.value) == (
        "the torch engine needs the Python packages torch, jinja2; no tritonserver found: not in PATH. "
        "Install what is missing: pip install 'triton-llm-operator[serving,tritonserver]'"
    )


def test_a_tritonserver_for_another_python_is_not_told_to_install_one() -> None:
    def other() -> Installation:
        raise TritonserverNotFoundError("no Python stub for Python 3.9; use one of: 3.11")

    with pytest.raises(LocalError) as caught:
        require_serving(Backend.TORCH, absent=nothing, find=other)
    assert str(caught.value) == "no Python stub for Python 3.9; use one of: 3.11"


def test_packages_alone_may_be_missing() -> None:
    with pytest.raises(LocalError, match="needs the Python packages"):
        require_serving(Backend.TORCH, absent=everything, find=lambda: FOUND)


def test_vllm_may_be_in_an_environment_beside_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = beside(tmp_path / ".venv", Backend.VLLM)
    assert other == tmp_path / ".venv-vllm" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))

    def absent(python: Path, modules: Sequence[str]) -> Sequence[str]:
        return [] if python == other else modules

    assert require_serving(Backend.VLLM, absent=absent, find=lambda: FOUND).python == other


def test_an_environment_without_vllm_is_told_with_the_way_to_get_one(tmp_path: Path) -> None:
    python = tmp_path / "python"
    with pytest.raises(LocalError, match=f"--python {python}: there is no such file"):
        require_serving(Backend.VLLM, python, everything, lambda: FOUND)
    python.touch()
    with pytest.raises(LocalError, match=f"needs the Python packages vllm in {python}.*make vllm"):
        require_serving(Backend.VLLM, python, everything, lambda: FOUND)


def test_an_interpreter_tells_what_it_lacks(tmp_path: Path) -> None:
    assert absent_modules(Path(sys.executable), ["json", "no_such_module"]) == ["no_such_module"]
    assert absent_modules(Path(sys.executable), ["vllm"]) == ["vllm"], "model_repository/vllm is a folder, no module"
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    assert absent_modules(other, ["json", "no_such_module"]) == ["no_such_module"]
    wrong = tmp_path / "wrong"
    wrong.write_text("#!/bin/sh\necho '[[3, 9], []]'\n")
    wrong.chmod(0o755)
    with pytest.raises(LocalError, match=r"is Python 3\.9; the tritonserver here runs 3\."):
        absent_modules(wrong, ["json"])
    wrong.write_text("#!/bin/sh\necho no >&2\n")
    with pytest.raises(LocalError, match="does not run Python: no"):
        absent_modules(wrong, ["json"])


def test_the_hosts_memory_is_that_of_a_pool_without_accelerators() -> None:
    fleet = FleetDefaults(pools={"cpu": Pool(), "small": Pool(memory="2Gi"), "gpu": Pool(resource="nvidia.com/gpu")})
    assert host_fleet(fleet, "cpu", 1000).pools["cpu"].memory == "1000"
    assert host_fleet(fleet, "unknown", 1000).pools["unknown"].memory == "1000"
    assert host_fleet(fleet, "small", 1000).pools["small"].memory == "2Gi"
    assert host_fleet(fleet, "gpu", 1000).pools["gpu"].memory is None
