"""The operator's image is slim and runs without a right it does not need."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster import images
from cluster.settings import Settings
from tests.cluster_fixtures import Kubectl

pytestmark = pytest.mark.e2e

LOOK = """
import importlib.util, os, pathlib, llmservice
package = pathlib.Path(llmservice.__file__).parent
assert importlib.util.find_spec("torch") is None, "torch is in the image"
assert os.getuid() == 65532, os.getuid()
assert any((package / "_model_repository").rglob("model.py")), "the code of gate and engines is missing"
assert any((package / "_crds").glob("*.yaml")), "the CRDs are missing"
try:
    open("/opt/operator/written", "w")
except OSError:
    print("read-only and complete")
"""


def test_it_is_at_most_250_mb_compressed(settings: Settings, load: Callable[[str], str]) -> None:
    load("operator")
    assert images.size_megabytes(settings, "operator") <= 250


def test_it_has_what_it_needs_and_no_torch(
    load: Callable[[str], str], run: Callable[..., None], kubectl: Kubectl, namespace: str
) -> None:
    run("look", {"image": load("operator"), "command": ["python3", "-c", LOOK]}, [])
    kubectl("-n", namespace, "wait", "pod/look", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    assert kubectl("-n", namespace, "logs", "look") == "read-only and complete\n"


def test_its_entry_point_is_the_command_line(
    load: Callable[[str], str], run: Callable[..., None], kubectl: Kubectl, namespace: str
) -> None:
    run("help", {"image": load("operator"), "args": ["--help"]}, [])
    kubectl("-n", namespace, "wait", "pod/help", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    assert "llmservice [OPTIONS] COMMAND" in kubectl("-n", namespace, "logs", "help")
