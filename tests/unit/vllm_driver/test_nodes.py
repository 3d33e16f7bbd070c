"""An engine over several nodes: what each node tells vLLM, and what workers read."""

from __future__ import annotations

import json

import pytest

from llmservice.api.engine import NODE_PARAMETERS
from llmserving.parameters import Parameters
from llmvllm.nodes import node_arguments
from llmvllm.options import EngineOptions, OptionError
from tests.unit.workload.workloads import fleet, service, workload

pytestmark = pytest.mark.unit

LEADER = {"LWS_WORKER_INDEX": "0", "LWS_LEADER_ADDRESS": "chat-1-0.chat-1.demo", "VLLM_HOST_IP": "10.0.0.7"}
WORKER = LEADER | {"LWS_WORKER_INDEX": "1", "VLLM_HOST_IP": "10.0.0.8"}
OVER_TWO = {
    "model": {"source": {"huggingFace": {"repo": "meta-llama/Llama-2-70b-chat-hf"}}},
    "engine": {"backend": "vllm", "parallelism": {"tensor": 8, "pipeline": 2, "nodes": 2}},
    "placement": {"pool": "a100-80gb"},
}


def test_one_node_needs_no_words() -> None:
    assert node_arguments(1, {}) == {}


def test_the_leader_is_where_it_is_and_workers_go_to_its_name() -> None:
    leader, worker = node_arguments(2, LEADER), node_arguments(2, WORKER)
    assert (leader["node_rank"], leader["master_addr"]) == (0, "10.0.0.7")
    assert (worker["node_rank"], worker["master_addr"]) == (1, "chat-1-0.chat-1.demo")
    assert leader["master_port"] == worker["master_port"]
    assert leader["nnodes"] == worker["nnodes"] == 2


def test_the_operator_lets_nobody_else_set_them() -> None:
    assert node_arguments(2, LEADER).keys() <= set(NODE_PARAMETERS)


@pytest.mark.parametrize("index", ["", "2", "one"])
def test_a_pod_without_a_place_is_told_what_to_do(index: str) -> None:
    with pytest.raises(OptionError, match=r"run it in a LeaderWorkerSet, or write spec\.engine\.parallelism\.nodes: 1"):
        node_arguments(2, WORKER | {"LWS_WORKER_INDEX": index})


def test_a_worker_reads_what_the_leader_is_told() -> None:
    repository = workload(service(OVER_TWO), fleet()).repository
    told = Parameters(json.loads(repository.files["chat-engine/1/parameters.json"]))
    options = EngineOptions.from_parameters(told)
    assert (options.nodes, options.tensor_parallel, options.pipeline_parallel) == (2, 8, 2)
    assert "slots" not in told.keys()  # noqa: SIM118 - a method of ours


def test_an_engine_on_one_node_has_no_file_for_workers() -> None:
    spec = OVER_TWO | {"engine": {"backend": "vllm", "parallelism": {"tensor": 8}}}
    assert not [path for path in workload(service(spec), fleet()).repository.files if path.endswith("json")]
