"""An engine over several nodes: which of them this one is, and where the first one is.

LeaderWorkerSet gives each pod its place: the leader has index 0 and runs Triton, the workers hold their part of the
engine. vLLM's processes find each other by torch's store on the leader (vllm#23691).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llmvllm.options import OptionError

INDEX: Final = "LWS_WORKER_INDEX"
LEADER: Final = "LWS_LEADER_ADDRESS"
OWN_ADDRESS: Final = "VLLM_HOST_IP"
"""The pod's address, which vLLM reads too."""

STORE_PORT: Final = 29501
"""vLLM's own `master_port`."""


def node_arguments(nodes: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of vLLM for this node of `nodes`; none for a single one.

    Raises `OptionError` where the environment does not say which node it is.
    """
    if nodes == 1:
        return {}
    index = environment.get(INDEX, "")
    # The leader's own name may not be known to the cluster's DNS yet.
    leader = environment.get(OWN_ADDRESS if index == "0" else LEADER, "")
    if not index.isdecimal() or int(index) >= nodes or not leader:
        raise OptionError(
            f"the engine runs on {nodes} nodes, and {INDEX} ({index!r}), {OWN_ADDRESS} and {LEADER} do not say which "
            "one this is: run it in a LeaderWorkerSet, or write spec.engine.parallelism.nodes: 1"
        )
    return {
        "distributed_executor_backend": "mp",
        "nnodes": nodes,
        "node_rank": int(index),
        "master_addr": leader,
        "master_port": STORE_PORT,
    }
