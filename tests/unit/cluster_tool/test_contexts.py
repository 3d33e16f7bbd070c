"""A cluster that may hold something of value is not touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import contexts
from cluster.errors import ClusterError
from cluster.settings import Settings

pytestmark = pytest.mark.unit


@pytest.fixture
def server(settings: Settings) -> Callable[[str], None]:
    """Puts a kubectl in place that talks to a server of some version."""

    def put(version: str) -> None:
        settings.bin.mkdir(parents=True, exist_ok=True)
        program = settings.bin / "kubectl"
        program.write_text(f"""#!/bin/sh\necho '{{"serverVersion": {{"gitVersion": "{version}"}}}}'\n""")
        program.chmod(0o755)

    return put


@pytest.mark.parametrize("name", ["kind-dev", "minikube", "k3d-a", "gke_x_test-1", "own"])
def test_names_of_test_clusters(name: str) -> None:
    assert contexts.is_for_tests(name, own="own")


@pytest.mark.parametrize("name", ["production", "gke_company_europe_main", "admin@cluster"])
def test_any_other_name_is_refused_unless_the_user_insists(
    settings: Settings, server: Callable[[str], None], name: str
) -> None:
    server("v1.34.4")
    with pytest.raises(ClusterError, match=contexts.INSIST):
        contexts.check(settings, name)
    assert contexts.check(settings, name, insist=True) == "v1.34.4"


@pytest.mark.parametrize(("version", "accepted"), [("v1.30.0", True), ("v1.31.2-eks-1", True), ("v1.29.9", False)])
def test_kubernetes_1_30_is_the_oldest(
    settings: Settings, server: Callable[[str], None], version: str, accepted: bool
) -> None:
    server(version)
    if accepted:
        assert contexts.check(settings, "kind-a") == version
    else:
        with pytest.raises(ClusterError, match=r"1\.30 or later"):
            contexts.check(settings, "kind-a")


def test_the_users_context_comes_from_one_variable() -> None:
    assert contexts.chosen_by_user({}) is None
    assert contexts.chosen_by_user({"LLMSERVICE_TEST_CONTEXT": ""}) is None
    assert contexts.chosen_by_user({"LLMSERVICE_TEST_CONTEXT": "mine"}) == "mine"


def test_an_exported_kubeconfig_is_private(settings: Settings, server: Callable[[str], None], tmp_path: Path) -> None:
    server("v1.34.4")
    assert contexts.export(settings, "kind-a", tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0
