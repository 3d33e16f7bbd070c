"""Simulated nodes look as NVIDIA's operator leaves real ones."""

from __future__ import annotations

import pytest

from cluster.errors import ClusterError
from cluster.simulated import manifest

pytestmark = pytest.mark.unit


def test_a_node_of_whole_gpus() -> None:
    node = manifest("a100-80gb", 3, gpus=8)
    labels = node["metadata"]["labels"]
    assert node["metadata"]["name"] == "a100-80gb-3"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB"
    assert labels["nvidia.com/gpu.memory"] == "81920"
    assert labels["nvidia.com/gpu.count"] == "8"
    assert labels["triton-llm.dev/pool"] == "a100-80gb"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_only_pods_that_tolerate_both_gpu_and_simulation_land_on_it() -> None:
    taints = manifest("a100-40gb", 0, gpus=1)["spec"]["taints"]
    assert [(taint["key"], taint["effect"]) for taint in taints] == [
        ("nvidia.com/gpu", "NoSchedule"),
        ("kwok.x-k8s.io/node", "NoSchedule"),
    ]


def test_a_node_of_slices_offers_as_many_as_fit() -> None:
    capacity = manifest("a100-80gb-mig-3g.40gb", 0, gpus=8)["status"]["capacity"]
    assert capacity["nvidia.com/mig-3g.40gb"] == "16"
    assert "nvidia.com/gpu" not in capacity


@pytest.mark.parametrize("pool", ["h100", "a100-80gb-mig-9g.1gb", ""])
def test_an_unknown_pool_lists_the_known_ones(pool: str) -> None:
    with pytest.raises(ClusterError, match="choose one of a100-40gb, a100-80gb"):
        manifest(pool, 0, gpus=1)


def test_addresses_stay_valid_in_a_large_pool() -> None:
    last = manifest("a100-80gb", 5000, gpus=8)["status"]["addresses"][0]["address"]
    assert all(0 <= int(part) <= 255 for part in last.split("."))
