"""Real helm over the project's chart."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import binaries
from cluster.settings import from_environment

CHART = Path(__file__).parents[3] / "charts" / "llmservice-operator"
KUBE_VERSION = "1.34.4"

Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs helm with some arguments and gives what it said."""
    settings = from_environment()
    binaries.ensure(settings, ("helm",))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [settings.bin / "helm", *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.fixture(scope="session")
def render(helm: Callable[..., subprocess.CompletedProcess[str]]) -> Render:
    """The manifests the chart gives for some values, as `key=value` in helm's own form or as YAML files."""

    def run(*values: str, files: tuple[Path, ...] = ()) -> list[dict[str, Any]]:
        sets = [part for value in values for part in ("--set", value)]
        from_files = [part for file in files for part in ("-f", str(file))]
        result = helm("template", "t", str(CHART), "-n", "llm", "--kube-version", KUBE_VERSION, *sets, *from_files)
        assert result.returncode == 0, result.stderr
        return [document for document in yaml.safe_load_all(result.stdout) if document]

    return run
