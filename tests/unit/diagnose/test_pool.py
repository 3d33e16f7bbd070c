"""What a pool's nodes have free is counted by failure domain, and said in words that help."""

from __future__ import annotations

from typing import Any

import pytest

from llmservice.api.fleet import Pool, Sharing
from llmservice.api.reasons import Reason
from llmservice.diagnose.chain import service_finding
from llmservice.diagnose.finding import Finding
from llmservice.diagnose.pool import MOST_DOMAINS, Node, in_words, see_pool

pytestmark = pytest.mark.unit

GPU = "nvidia.com/gpu"
POOL = Pool(accelerator="a100-80gb", node_selector={"pool": "big"})


def node(name: str, zone: str = "a", gpus: int = 8, taken: int = 0, **changes: Any) -> Node:
    labels = {"pool": "big", "topology.kubernetes.io/zone": zone, **changes.pop("labels", {})}
    return Node(name, labels, offered={GPU: gpus}, taken={GPU: taken}, **changes)


def test_free_accelerators_are_counted_by_failure_domain() -> None:
    nodes = [node("1", "a", taken=6), node("2", "a", taken=7), node("3", "b", taken=8), node("4", labels={"pool": "x"})]
    seen = see_pool(POOL, GPU, nodes)
    assert (seen.nodes, seen.whole_node, seen.offered, seen.free, seen.largest) == (3, 8, 24, 3, 2)
    assert in_words(seen, 4) == "a: 3 of 16 free, at most 2 on one node; b: 0 of 8 free"


def test_a_shortage_names_replicas_accelerators_pool_and_domains() -> None:
    waits = [Finding(Reason.WAITING_FOR_GPU, "no node has 4 free", str(n), lacks=((GPU, 4),)) for n in range(2)]
    found = service_finding(waits, "big", see_pool(POOL, GPU, [node("1", "a", taken=6)]))
    assert found is not None
    assert found.message == f"2 replicas wait for 8 {GPU} in pool big (a: 2 of 8 free): no node has 4 free"
    assert found.replicas == 2


@pytest.mark.parametrize(
    ("nodes", "asked", "said"),
    [
        ([], 1, "it has no node"),
        (
            [Node("1", {"pool": "big"}, offered={"nvidia.com/mig-1g.10gb": 56})],
            1,
            f"none of its 1 node has {GPU}; they have 56 nvidia.com/mig-1g.10gb",
        ),
        ([Node("1", {"pool": "big"})], 1, f"none of its 1 node has {GPU}; they have no accelerator"),
        ([node("1"), node("2", gpus=4)], 16, "no node of it has 16, the largest has 8"),
        ([node("1", taken=8), node("2", open=False)], 1, "a: 0 of 8 free; 1 node cordoned or with a taint"),
    ],
)
def test_a_pool_that_cannot_have_them_says_what_it_has(nodes: list[Node], asked: int, said: str) -> None:
    assert in_words(see_pool(POOL, GPU, nodes), asked).startswith(said)


def test_a_node_without_the_topology_label_is_counted_without_a_name() -> None:
    assert in_words(see_pool(POOL, GPU, [Node("1", {"pool": "big"}, offered={GPU: 8})]), 1) == "8 of 8 free"
    by_host = POOL.model_copy(update={"topology_keys": ["kubernetes.io/hostname"]})
    assert in_words(see_pool(by_host, GPU, [node("1"), node("2")]), 1) == "16 of 16 free, at most 8 on one node"


def test_many_domains_are_named_in_part_and_summed_up() -> None:
    said = in_words(see_pool(POOL, GPU, [node(str(n), f"zone-{n:02d}") for n in range(MOST_DOMAINS + 2)]), 1)
    assert said.count("zone-") == MOST_DOMAINS
    assert said.endswith("2 more: 16 of 16 free")


def test_what_an_operator_of_some_namespaces_cannot_see_is_said() -> None:
    assert in_words(see_pool(POOL, GPU, [node("1")], complete=False), 1).endswith("which the operator does not see")


TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "open_to_it"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "other"}, False),
        ({"key": "spot", "operator": "Exists"}, False),
    ],
)
def test_a_node_counts_where_its_taints_are_tolerated(toleration: dict[str, str], open_to_it: bool) -> None:
    seen = see_pool(POOL, GPU, [node("1", taints=(TAINT,))], [toleration])
    assert (seen.free, seen.closed) == ((8, 0) if open_to_it else (0, 1))


@pytest.mark.parametrize(
    ("labels", "sharing"),
    [
        ({}, None),
        ({f"{GPU}.replicas": "1", f"{GPU}.sharing-strategy": "none"}, None),
        ({f"{GPU}.replicas": "4"}, ("TimeSlicing", 4)),
        ({f"{GPU}.replicas": "4", f"{GPU}.sharing-strategy": "time-slicing"}, ("TimeSlicing", 4)),
        ({f"{GPU}.replicas": "2", f"{GPU}.sharing-strategy": "mps"}, ("MPS", 2)),
        ({f"{GPU}.replicas": "many"}, None),
        ({"nvidia.com/mig-1g.10gb.replicas": "4"}, None),
    ],
)
def test_sharing_is_read_from_the_labels_of_gpu_feature_discovery(
    labels: dict[str, str], sharing: tuple[str, int] | None
) -> None:
    found = see_pool(POOL, GPU, [node("1"), node("2", labels=labels)]).sharing
    expected = None if sharing is None else Sharing.model_validate({"strategy": sharing[0], "replicas": sharing[1]})
    assert found == expected
