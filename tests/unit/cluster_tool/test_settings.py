"""Names and places of an embedded cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.settings import from_environment

pytestmark = pytest.mark.unit

HOME = {"HOME": "/home/ada"}


def test_without_variables_everything_lives_in_the_users_own_folders() -> None:
    settings = from_environment(HOME)
    assert settings.cache == Path("/home/ada/.cache/triton-llm-operator")
    assert settings.state == Path("/home/ada/.local/state/triton-llm-operator/llmservice-test")
    assert settings.kubeconfig.is_relative_to(settings.state)


def test_xdg_and_own_variables_move_them() -> None:
    settings = from_environment(
        {**HOME, "XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s", "LLMSERVICE_CLUSTER_NAME": "two"}
    )
    assert (settings.cache, settings.state) == (Path("/c/triton-llm-operator"), Path("/s/triton-llm-operator/two"))
    assert from_environment({**HOME, "LLMSERVICE_CACHE": "/big"}).cache == Path("/big")


@pytest.mark.parametrize("port", ["", "26444"])
def test_another_process_reads_the_same_settings_from_their_variables(port: str) -> None:
    asked = {
        "LLMSERVICE_CLUSTER_NAME": "two",
        "LLMSERVICE_CACHE": "/big",
        "LLMSERVICE_CLUSTER_STATE": "/s",
        "LLMSERVICE_CLUSTER_POD_CIDR": "10.1.0.0/16",
        "LLMSERVICE_CLUSTER_SERVICE_CIDR": "10.2.0.0/16",
        "LLMSERVICE_CLUSTER_API_PORT": port,
    }
    settings = from_environment(HOME | asked)
    assert settings.environment == asked
    assert from_environment({"HOME": "/home/eve"} | settings.environment) == settings


def test_addresses_follow_from_the_networks() -> None:
    settings = from_environment(HOME)
    assert settings.gateway == "10.213.0.1"
    assert settings.kubernetes_address == "10.214.0.1"
    assert settings.dns_address == "10.214.0.10"


@pytest.mark.parametrize("name", ["llmservice-test", "a", "a-name-of-thirty-and-a-few-letters-xyz"])
def test_bridge_name_fits_linux(name: str) -> None:
    assert len(from_environment({**HOME, "LLMSERVICE_CLUSTER_NAME": name}).bridge) <= 15


def test_two_clusters_share_neither_bridge_nor_control_group() -> None:
    one, two = (from_environment({**HOME, "LLMSERVICE_CLUSTER_NAME": name}) for name in ("one", "two"))
    assert one.bridge != two.bridge
    assert one.cgroup != two.cgroup


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("LLMSERVICE_CLUSTER_NAME", "Not A Name", "lower-case"),
        ("LLMSERVICE_CLUSTER_API_PORT", "70000", "from 1 to 65535"),
        ("LLMSERVICE_CLUSTER_API_PORT", "http", "from 1 to 65535"),
        ("LLMSERVICE_CLUSTER_POD_CIDR", "10.0.0.0/30", "/24 or larger"),
        ("LLMSERVICE_CLUSTER_POD_CIDR", "ten", "write for example 10.213.0.0/16"),
        ("LLMSERVICE_CLUSTER_POD_CIDR", "10.214.0.0/16", "two separate networks"),
        ("LLMSERVICE_CLUSTER_STATE", "/" + "x" * 100, "shorter path"),
    ],
)
def test_a_value_that_cannot_work_says_what_to_write(variable: str, value: str, remedy: str) -> None:
    with pytest.raises(ClusterError, match=remedy):
        from_environment({**HOME, variable: value})
