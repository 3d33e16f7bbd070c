"""What must hold for every workload, whatever its golden says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from llmservice.api.knobs import Knobs
from llmservice.api.service import MAX_NAME_LENGTH
from llmservice.repository.errors import RenderError
from llmservice.workload.keeper import with_replicas
from llmservice.workload.openai import build_openai_containers
from tests.unit.workload.cases import CASES, Case
from tests.unit.workload.workloads import LLAMA, SMOLLM, fleet, service, workload

pytestmark = pytest.mark.unit
EVERY = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def pod(spec: dict[str, Any], **changes: Any) -> dict[str, Any]:
    built: dict[str, Any] = workload(service(spec), fleet(changes)).manifest("Deployment")["spec"]["template"]["spec"]
    return built


def triton(spec: dict[str, Any], **changes: Any) -> dict[str, Any]:
    container: dict[str, Any] = pod(spec, **changes)["containers"][0]
    return container


@EVERY
def test_the_same_input_gives_the_same_output(case: Case) -> None:
    assert case.build() == case.build()


@EVERY
def test_every_child_is_owned_and_labelled(case: Case) -> None:
    for manifest in case.build().manifests:
        metadata = manifest["metadata"]
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [case.service().metadata.uid]
        assert metadata["ownerReferences"][0]["controller"] is True
        assert metadata["labels"]["app.kubernetes.io/instance"] == "chat"
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "triton-llm-operator"


@EVERY
def test_no_container_may_write_outside_its_volumes_or_gain_rights(case: Case) -> None:
    for template in case.templates():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        for container in (*spec["initContainers"], *spec["containers"]):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@EVERY
def test_triton_sees_the_repository_and_the_weights_read_only(case: Case) -> None:
    for template in case.templates():
        container = template["spec"]["containers"][0]
        read_only = {mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")}
        assert {"/repository", "/models"} <= read_only


@EVERY
def test_the_grace_period_covers_hook_and_drain(case: Case) -> None:
    spec = case.templates()[0]["spec"]
    sleep = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = case.service().spec.drain.timeout.total_seconds()
    assert spec["terminationGracePeriodSeconds"] > sleep + drain
    assert f"--exit-timeout-secs={int(drain)}" in spec["containers"][0]["args"]


def test_a_revision_is_eight_hex_digits_and_stands_in_the_names_of_what_belongs_to_it() -> None:
    built = CASES[0].build()
    assert re.fullmatch(r"[0-9a-f]{8}", built.revision)
    name = built.keeper["metadata"]["name"]
    assert name == built.manifest("ConfigMap")["metadata"]["name"] == f"chat-{built.revision}"
    template = built.manifest("Deployment")["spec"]["template"]
    assert template["metadata"]["labels"]["triton-llm.dev/revision"] == built.revision
    assert template["spec"]["volumes"][0]["configMap"]["name"] == name


def test_the_deployment_comes_last_and_leaves_its_replicas_to_the_rollout() -> None:
    deployment = CASES[0].build().manifests[-1]
    assert deployment["kind"] == "Deployment"
    assert "replicas" not in deployment["spec"]
    assert with_replicas(deployment, 3)["spec"]["replicas"] == 3
    assert "replicas" not in deployment["spec"]


@pytest.mark.parametrize(
    "knobs",
    [
        {"maxQueueDelay": "25ms"},
        {"engineInstances": 2},
        {"slots": 40},
        {"replicas": 5},
    ],
    ids=lambda knobs: next(iter(knobs)),
)
def test_a_knob_changes_no_revision(knobs: dict[str, Any]) -> None:
    asked, defaults = service({"model": SMOLLM}), fleet()
    moved = workload(asked, defaults, Knobs.model_validate(knobs))
    assert moved.revision == workload(asked, defaults).revision


@pytest.mark.parametrize(
    ("spec", "changes_revision"),
    [
        ({"batching": {"maxQueueDelay": "25ms"}}, False),
        ({"batching": {"priorities": {"levels": 3}}}, False),
        ({"scaling": {"minReplicas": 2, "maxReplicas": 4}}, False),
        ({"tuning": {"mode": "Off"}}, False),
        ({"service": {"type": "NodePort"}}, False),
        ({"service": {"openAI": {"enabled": False}}}, True),
        ({"service": {"openAI": {"requestTimeout": "90s"}}}, True),
        ({"model": {**SMOLLM, "servedNames": ["other"]}}, True),
        ({"batching": {"maxSequences": 3}}, True),
        ({"kvCache": {"memoryPercent": 50}}, True),
        ({"model": {**SMOLLM, "maxLength": 1024}}, True),
        ({"engine": {"image": "registry.example/other:1"}}, True),
        ({"template": {"env": [{"name": "A", "value": "b"}]}}, True),
        ({"drain": {"timeout": "60s"}}, True),
    ],
    ids=lambda value: str(value)[:40],
)
def test_only_what_a_running_pod_cannot_take_changes_the_revision(spec: dict[str, Any], changes_revision: bool) -> None:
    before = workload(service({"model": SMOLLM}), fleet()).revision
    after = workload(service({"model": SMOLLM, **spec}), fleet()).revision
    assert (before != after) is changes_revision


def test_the_token_is_the_services_own_and_stands_in_no_other_manifest() -> None:
    built = CASES[0].build()
    data = built.manifest("Secret")["data"]["token"]
    assert data == CASES[0].build().manifest("Secret")["data"]["token"]
    assert data != workload(service({"model": SMOLLM}, name="other"), fleet()).manifest("Secret")["data"]["token"]
    arguments = triton({"model": SMOLLM})["args"]
    assert any(argument.endswith("triton-llm-token=$(TRITON_TOKEN)") for argument in arguments)


def test_only_flags_that_the_version_knows_are_passed() -> None:
    flag = "--metrics-config=histogram_latencies=true"
    assert flag not in triton({"model": SMOLLM})["args"]
    newer = triton({"model": LLAMA, "engine": {"backend": "vllm"}, "placement": {"pool": "a100-80gb"}})
    assert flag in newer["args"]


def test_the_startup_budget_follows_the_weights() -> None:
    def budget(spec: dict[str, Any]) -> int:
        probe = triton(spec)["startupProbe"]
        return int(probe["periodSeconds"] * probe["failureThreshold"])

    vllm = {"engine": {"backend": "vllm"}, "placement": {"pool": "a100-80gb"}}
    assert 300 <= budget({"model": SMOLLM}) < 360
    assert 500 < budget({"model": LLAMA, **vllm}) < 700
    assert budget({"model": {"source": {"pvc": {"claimName": "models"}}}}) == 3600


def test_the_service_wins_over_its_pool_and_never_over_the_operator() -> None:
    case = next(case for case in CASES if case.name == "template-of-pool-and-service")
    template = case.build().manifest("Deployment")["spec"]["template"]
    container = template["spec"]["containers"][0]
    env = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert template["metadata"]["labels"]["cost-centre"] == "chat"
    assert template["metadata"]["labels"]["app.kubernetes.io/instance"] == "chat"
    assert env["NCCL_DEBUG"] == "INFO"
    assert container["resources"]["requests"] == {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1"}
    assert container["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "1"}
    assert [toleration["key"] for toleration in template["spec"]["tolerations"]] == [
        "dedicated",
        "spot",
        "nvidia.com/gpu",
    ]


@pytest.mark.parametrize(
    ("spec", "path", "remedy"),
    [
        ({"template": {"env": [{"name": "TRITON_TOKEN", "value": "x"}]}}, "spec.template.env[0].name", "remove it"),
        ({"template": {"volumes": [{"name": "shm"}]}}, "spec.template.volumes[0].name", "other than"),
        (
            {"template": {"volumeMounts": [{"name": "a", "mountPath": "/models/x"}]}},
            "spec.template.volumeMounts[0].mountPath",
            "mount outside",
        ),
        ({"placement": {"pool": "h100"}}, "spec.placement.pool", "a100-80gb"),
    ],
    ids=["env", "volume", "mount", "pool"],
)
def test_what_cannot_be_built_says_where_and_what_to_write_instead(
    spec: dict[str, Any], path: str, remedy: str
) -> None:
    with pytest.raises(RenderError, match=re.escape(remedy)) as caught:
        workload(service({"model": SMOLLM, **spec}), fleet())
    assert caught.value.field_path == path


def test_a_request_of_the_pool_above_a_limit_of_the_service_is_refused() -> None:
    pools = {"pools": {"cpu": {"template": {"resources": {"requests": {"memory": "8Gi"}}}}}}
    for limit, refused in (("8192Mi", False), ("4Gi", True)):
        spec = {"model": SMOLLM, "template": {"resources": {"limits": {"memory": limit}}}}
        if not refused:
            workload(service(spec), fleet(pools))
            continue
        with pytest.raises(RenderError, match="memory has a request of 8Gi and a limit of 4Gi: write") as caught:
            workload(service(spec), fleet(pools))
        assert caught.value.field_path == "spec.template.resources"


def test_a_name_too_long_for_its_children_is_refused() -> None:
    longest = "a" * MAX_NAME_LENGTH
    assert workload(service({"model": SMOLLM}, name=longest), fleet()).keeper["metadata"]["name"].startswith(longest)
    with pytest.raises(RenderError, match=f"at most {MAX_NAME_LENGTH}"):
        workload(service({"model": SMOLLM}, name="a" * (MAX_NAME_LENGTH + 1)), fleet())


def test_a_source_reaches_the_weights_step_as_written_and_reads_no_variable() -> None:
    source = {
        "huggingFace": {"repo": "a/b", "revision": "$(HF_TOKEN)$x", "tokenSecretRef": {"name": "hf", "key": "token"}}
    }
    arguments = pod({"model": {"source": source, "maxLength": 64}})["initContainers"][1]["args"]
    assert '"$$(HF_TOKEN)$$x"' in arguments[arguments.index("--source") + 1]


STOCK: dict[str, Any] = {
    "model": LLAMA,
    "engine": {"backend": "vllm", "driver": "Nvidia"},
    "placement": {"pool": "a100-80gb"},
}


def test_a_stock_backend_is_loaded_alone_and_brings_the_weights_step_with_it() -> None:
    built = pod(STOCK | {"model": {"source": {"pvc": {"claimName": "models"}}}})
    assert [argument for argument in built["containers"][0]["args"] if "load-model" in argument] == [
        "--load-model=chat"
    ]
    assert built["initContainers"][1]["args"][0] == "/repository/chat/1/llmserving/weights.py"
    assert built["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/v2/models/chat/ready"


def test_the_openai_endpoint_is_told_the_adapters_of_the_service() -> None:
    adapters = [{"name": "sql", "path": "adapters/sql"}, {"name": "poems", "path": "/poems"}]
    spec = {"model": SMOLLM, "engine": {"backend": "vllm", "vllm": {"adapters": adapters}}}
    (endpoint,) = build_openai_containers(service(spec), fleet({}))
    assert [one for one in endpoint["args"] if one.startswith(("--served-name", "--adapter"))] == [
        "--served-name=chat",
        "--adapter=sql",
        "--adapter=poems",
    ]
    (without,) = build_openai_containers(service({"model": SMOLLM}), fleet({}))
    assert "--adapter" not in " ".join(without["args"])


def test_before_a_stock_backend_there_is_no_openai_endpoint_anywhere() -> None:
    built = workload(service(STOCK), fleet({"networkPolicy": True, "podMonitor": True}))
    assert [container["name"] for container in pod(STOCK)["containers"]] == ["triton"]
    assert "openai" not in str([manifest["spec"] for manifest in built.manifests if "spec" in manifest])


def test_a_pod_monitor_scrapes_as_often_as_the_operator_looks() -> None:
    built = workload(service({"model": SMOLLM}), fleet({"podMonitor": True, "signalsInterval": "30s"})).manifest(
        "PodMonitor"
    )
    assert {page["interval"] for page in built["spec"]["podMetricsEndpoints"]} == {"30s"}


def test_a_stock_backends_arguments_are_part_of_its_revision() -> None:
    other = {**STOCK, "engine": {**STOCK["engine"], "parameters": {"enforce_eager": "true"}}}
    assert workload(service(STOCK), fleet()).revision != workload(service(other), fleet()).revision


def test_the_image_a_service_names_says_by_its_tag_which_triton_it_has() -> None:
    older = {**STOCK, "engine": {**STOCK["engine"], "image": "nvcr.io/nvidia/tritonserver:25.03-vllm-python-py3"}}
    template = workload(service(older), fleet()).manifest("Deployment")["spec"]["template"]
    assert template["metadata"]["annotations"]["triton-llm.dev/triton-version"] == "2.56.0"


def test_an_engine_over_two_gpus_gets_a_tritonserver_for_each_and_one_that_serves() -> None:
    case = next(case for case in CASES if case.name == "stock-engine-pair")
    built = case.build().manifest("Deployment")["spec"]["template"]["spec"]
    command = [*built["containers"][0]["command"], *built["containers"][0]["args"]]
    assert command[:4] == ["mpirun", "-n", "1", "tritonserver"]
    second = command[command.index(":") + 1 :]
    assert second[:3] == ["-n", "1", "tritonserver"]
    assert [argument for argument in second if "load-model" in argument] == ["--load-model=chat-engine"]
    assert "--allow-http=false" in second
    first = command[: command.index(":")]
    loaded = [argument.partition("=")[2] for argument in first if "load-model" in argument]
    assert loaded == ["preprocessing", "chat-engine", "postprocessing", "chat"]


def test_the_code_of_nvidias_models_is_copied_before_the_weights_come() -> None:
    case = next(case for case in CASES if case.name == "stock-engine-pair")
    names = [one["name"] for one in case.build().manifest("Deployment")["spec"]["template"]["spec"]["initContainers"]]
    assert names == ["repository", "code", "weights"]
