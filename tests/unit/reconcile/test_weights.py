"""Weights in the status, and what their files make of the capacity plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmservice.api.fleet import FleetDefaults, Pool
from llmservice.api.model import ModelSource
from llmservice.diagnose.pod import Pod, read_pod
from llmservice.diagnose.weights_report import weights_report
from llmservice.kube import resources
from llmservice.workload.names import REVISION_LABEL
from tests.unit.reconcile.small_cluster import KEY, SmallCluster, ready_status

pytestmark = pytest.mark.unit

SOURCE: dict[str, Any] = {"s3": {"bucket": "models", "prefix": "own"}}
SMALL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000,
    "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
}  # fmt: skip
LARGE = SMALL | {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64}
AT = "2026-01-01T00:00:05Z"


def report(config: dict[str, Any], **more: Any) -> str:
    said = {"source": ModelSource.model_validate(SOURCE).key, "revision": "abc", "bytes": 1000, "transferred": 1000}
    return json.dumps(said | {"config": config, "parameters": None} | more)


def weights(state: dict[str, Any]) -> dict[str, Any]:
    return {"phase": "Pending", "initContainerStatuses": [{"name": "weights", "state": state}]}


def ended(message: str, code: int = 0) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message, "startedAt": AT, "finishedAt": AT}}


@pytest.fixture
async def cluster() -> SmallCluster:
    """A service whose model no catalogue knows, with one pod that has begun."""
    made = SmallCluster(FleetDefaults(pools={"a100-40gb": Pool(accelerator="a100-40gb")}))
    made.pods_become = "pending"
    made.user_applies(model={"source": SOURCE}, engine={"backend": "vllm"}, placement={"pool": "a100-40gb"})
    await made.converge()
    return made


async def shows(cluster: SmallCluster, status: dict[str, Any], log: str = "") -> None:
    (pod,) = cluster.pods()
    cluster.set_pod_status(pod, status)
    if log:
        cluster.kube.pod_logs[KEY[0], pod, "weights", False] = log
    await cluster.converge()


async def test_a_gguf_file_is_known_once_it_is_converted() -> None:
    def pod(converted: dict[str, Any]) -> Pod:
        fetched = json.dumps({"source": "s", "revision": "abc", "bytes": 1000, "transferred": 1000})
        steps = [{"name": "weights", "state": ended(fetched)}, {"name": "convert", "state": converted}]
        status = {"phase": "Pending", "initContainerStatuses": steps}
        return read_pod({"metadata": {"name": "p", "labels": {}}, "spec": {}, "status": status}, REVISION_LABEL)

    for state in ({"waiting": {"reason": "PodInitializing"}}, {"running": {"startedAt": AT}}, ended("broken", 1)):
        assert weights_report(pod(state)) is None
    found = weights_report(pod(ended(json.dumps({"config": SMALL, "parameters": 7}))))
    assert found is not None
    assert (found.config, found.parameters) == (SMALL, 7)


async def test_a_model_nobody_knows_fits_once_its_files_say_so(cluster: SmallCluster) -> None:
    assert cluster.condition("CapacityFits")["status"] == "Unknown"
    before = cluster.pods()
    await shows(cluster, weights(ended(report(SMALL))))
    assert cluster.condition("CapacityFits")["status"] == "True"
    assert cluster.status()["capacity"]["kvTokens"] > 0
    assert cluster.status()["weights"]["phase"] == "Ready"
    assert cluster.status()["weights"]["revision"] == "abc"
    assert "write spec.batching.maxSequences" in cluster.condition("CapacityFits")["message"]
    assert cluster.pods() == before


async def test_a_model_that_does_not_fit_is_said_before_it_is_loaded(cluster: SmallCluster) -> None:
    await shows(cluster, weights(ended(report(LARGE))))
    fits = cluster.condition("CapacityFits")
    assert (fits["status"], fits["reason"]) == ("False", "DoesNotFit")
    assert cluster.status()["capacity"]["remedies"]


async def test_what_serves_is_not_said_not_to_fit(cluster: SmallCluster) -> None:
    serving = ready_status(cluster.clock.now()) | {
        "initContainerStatuses": [{"name": "weights", "state": ended(report(LARGE))}]
    }
    await shows(cluster, serving)
    fits = cluster.condition("CapacityFits")
    assert fits["status"] == "Unknown"
    assert "and yet it serves" in fits["message"]
    assert cluster.condition("Ready")["status"] == "True"


async def test_what_served_comes_back_from_zero(cluster: SmallCluster) -> None:
    cluster.pods_become = "ready"
    serving = ready_status(cluster.clock.now()) | {
        "initContainerStatuses": [{"name": "weights", "state": ended(report(LARGE))}]
    }
    await shows(cluster, serving)
    for count in (0, 1):
        spec = cluster.service()["spec"]
        cluster.user_applies(spec, replicas=count)
        await cluster.converge()
        assert len(cluster.pods()) == count
    assert cluster.condition("Ready")["reason"] == "Serving"


async def test_what_was_seen_outlives_the_pods_and_the_process(cluster: SmallCluster) -> None:
    await shows(cluster, weights(ended(report(SMALL))))
    cluster.remove(resources.POD, cluster.pods()[0])
    cluster.restart()
    await cluster.converge()
    assert cluster.condition("CapacityFits")["status"] == "True"


async def test_another_source_is_another_model(cluster: SmallCluster) -> None:
    await shows(cluster, weights(ended(report(SMALL))))
    other = {"s3": {"bucket": "models", "prefix": "other"}}
    cluster.user_applies(model={"source": other}, engine={"backend": "vllm"}, placement={"pool": "a100-40gb"})
    await cluster.converge()
    assert cluster.condition("CapacityFits")["status"] == "Unknown"
    assert "config" not in cluster.status().get("weights", {})


@pytest.mark.parametrize(
    "message",
    ["", "no JSON", "[1]", '{"source": 1}', '{"source": "of another"}', report({"hidden_size": "many"}), report({})],
)
async def test_a_report_that_says_nothing_claims_nothing(cluster: SmallCluster, message: str) -> None:
    await shows(cluster, weights(ended(message)))
    assert cluster.condition("CapacityFits")["status"] == "Unknown"


async def test_a_cluster_that_drops_image_volumes_is_one_clear_condition() -> None:
    cluster = SmallCluster(FleetDefaults(pools={"a100-40gb": Pool(accelerator="a100-40gb")}))
    image = {"oci": {"reference": "registry.example/models/own:1"}}
    cluster.user_applies(model={"source": image}, engine={"backend": "vllm"}, placement={"pool": "a100-40gb"})
    await cluster.converge()
    assert cluster.condition("Ready")["reason"] == "Serving"
    (name,) = cluster.kube.names(resources.DEPLOYMENT, KEY[0])

    def drop(deployment: dict[str, Any]) -> None:
        pod = deployment["spec"]["template"]["spec"]
        pod["volumes"] = [volume for volume in pod["volumes"] if "image" not in volume]

    cluster.kube.change(resources.DEPLOYMENT, KEY[0], name, drop)
    await cluster.converge()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "ApiMissing"
    assert "no image volumes" in ready["message"]
    assert f"delete Deployment '{name}'" in ready["message"]


async def test_progress_stands_in_the_status(cluster: SmallCluster) -> None:
    line = {"phase": "download", "percent": 44.8, "bytes": 12, "total_bytes": 2_680_000_000}
    line |= {"bytes_per_second": 84_700_000, "eta_seconds": 17.4}
    await shows(cluster, weights({"running": {"startedAt": AT}}), json.dumps(line))
    found = cluster.status()["weights"]
    assert (found["phase"], found["percent"], found["bytesPerSecond"]) == ("Fetching", 40, 85_000_000)
    assert (found["totalBytes"], found["secondsLeft"]) == (2_680_000_000, 20)
    assert found["progress"] == "40 % of 2.7 GB, 85 MB/s, about 20 s left"
    await shows(cluster, weights(ended(report(SMALL))))
    assert "progress" not in cluster.status()["weights"]


async def test_a_pod_that_waits_for_another_says_so(cluster: SmallCluster) -> None:
    line = json.dumps({"phase": "wait", "percent": 50.0, "bytes": 1, "total_bytes": 2})
    await shows(cluster, weights({"running": {"startedAt": AT}}), line)
    assert cluster.status()["weights"]["phase"] == "Waiting"


async def test_a_failure_is_an_event_with_its_cause(cluster: SmallCluster) -> None:
    cause = "UNAUTHORIZED: the hub answers 401 to a request without a token for owner/model"
    await shows(cluster, weights(ended(cause, 4)))
    assert cluster.status()["weights"]["phase"] == "Failed"
    assert cluster.condition("Ready")["reason"] == "ModelSourceFailed"
    assert "401" in cluster.condition("Ready")["message"]
    assert ("Warning", "ModelSourceFailed") in cluster.events()
