"""The chart's values for this cluster: its images, its Prometheus, and the engines' packages mounted from this host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cluster import images, monitoring, serving
from cluster.settings import Settings


def write(settings: Settings) -> Path:
    """Write the values file and return its path. JSON is YAML, so helm reads it."""
    operator, tag = images.IMAGES["operator"].tag.rsplit(":", 1)
    packages = {"name": "serving", "mountPath": serving.MOUNT_PATH, "readOnly": True}
    folder = {"name": "serving", "hostPath": {"path": str(serving.folder(settings)), "type": "Directory"}}
    values: dict[str, Any] = {
        "image": {"repository": operator, "tag": tag, "pullPolicy": "IfNotPresent"},
        # A new image under the same tag must still roll the operator.
        "podAnnotations": {images.KEY_LABEL: images.build_key("operator")},
        "nodes": {"prePullImages": ["torch"]},
        "fleet": {
            "endpointDrain": "3s",
            "weightsCache": {"hostPath": str(settings.weights), "sizeLimit": "2Gi"},
            "images": {"torch": {"image": images.IMAGES["triton-cpu"].tag, "tritonVersion": "2.51.0"}},
            "pools": {
                "cpu": {
                    "accelerator": "cpu",
                    "memory": "6Gi",
                    "nodeSelector": {"triton-llm.dev/pool": "cpu"},
                    "template": {"volumes": [folder], "volumeMounts": [packages]},
                }
            },
        },
    }
    if monitoring.runs(settings):
        values["prometheus"] = {"url": monitoring.url(settings)}
    path = settings.state / "values.yaml"
    path.write_text(json.dumps(values, indent=2) + "\n")
    return path
