"""The Job that builds an engine: Kubernetes takes it, and it is told what the spec says. Nothing is built here."""

from __future__ import annotations

from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from llmservice.repository.errors import RenderError
from tests.unit.workload.builds import FAMILIES, HUB, SPLIT, TENSORRTLLM, job

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("version", ["1.30", "1.34"])
@pytest.mark.parametrize(("spec", "family"), FAMILIES.values(), ids=FAMILIES)
def test_kubernetes_accepts_the_job(spec: dict[str, Any], family: str, version: str) -> None:
    kubernetes_validate.validate(job(spec, family), version, strict=True)


def test_the_build_gets_the_limits_and_the_split_of_the_spec() -> None:
    (container,) = job(SPLIT, "llama")["spec"]["template"]["spec"]["containers"]
    values = {entry["name"]: entry["value"] for entry in container["env"]}
    assert values["MODEL"] == "/source/llama2-13b"
    assert values["TARGET"] == "/engines/llama2/a100"
    assert (values["MAX_BATCH_SIZE"], values["MAX_NUM_TOKENS"], values["MAX_SEQ_LEN"]) == ("32", "4096", "4096")
    assert values["RANKS"] == "2"
    assert container["command"][4:] == ["--tp_size=2", "--pp_size=1", "--dtype=float16", "--int8_kv_cache"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_it_is_built_on_the_gpu_it_is_for() -> None:
    pod = job(HUB)["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["nvidia.com/gpu.product"].startswith("NVIDIA-A100")
    assert [container["name"] for container in pod["initContainers"]] == ["weights"]


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"engine": {"backend": "vllm"}}, "spec.engine.backend", "only tensorrtllm has engines"),
        ({"placement": {"pool": "cpu"}}, "spec.placement.pool", "a pool of GPUs"),
        (
            {"model": {"source": {"hostPath": {"path": "/m"}}, "maxLength": 8}},
            "spec.model.source",
            "huggingFace or pvc",
        ),
        ({"model": {"source": {"pvc": {"claimName": "m"}}}}, "spec.model.maxLength", "write maxLength"),
        ({"model": {"source": {"pvc": {"claimName": "m"}}, "maxLength": 8}}, "spec.model.source", "by --family"),
        ({"kvCache": {"dtype": "fp8_e4m3"}}, "spec.kvCache.dtype", "write Auto or int8"),
        (
            {"model": {"source": {"huggingFace": {"repo": "Qwen/Qwen2.5-7B-Instruct-AWQ"}}}},
            "spec.model.source",
            "name the unquantised model",
        ),
    ],
)
def test_what_cannot_be_built_names_its_field(change: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(RenderError, match=says) as caught:
        job({**HUB, "engine": TENSORRTLLM, **change})
    assert caught.value.field_path == field
