"""The operator of this checkout on the embedded cluster, and services that several tests look at."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster import contexts
from cluster.settings import Settings, from_environment
from tests.e2e.main_job.describing import describe
from tests.e2e.main_job.hub_pod import HubPod, certificate, gguf_folder
from tests.e2e.main_job.kube import ROOT, Kube, Service
from tests.e2e.main_job.operator_release import OperatorRelease
from tests.e2e.main_job.watching import Watch, watching

LABEL = "triton-llm.dev/test=main-job"
OURS = "app in (hub, load, s3)"
"""Pods that the tests made themselves."""
NewSpace = Callable[[str], str]


@dataclass(frozen=True)
class Started:
    """A service that serves, and what was seen on its way there."""

    service: Service
    watch: Watch


@pytest.fixture(scope="session")
def settings(kubeconfig: Path) -> Settings:
    """The embedded cluster's settings; these tests build images for it and reach into its node."""
    assert contexts.chosen_by_user() is None, (
        f"the tests of the main job run on the embedded cluster only: unset {contexts.CONTEXT_VARIABLE}, or deselect "
        "tests/e2e/main_job"
    )
    return from_environment()


@pytest.fixture(scope="session")
def kube(settings: Settings) -> Kube:
    """kubectl and helm."""
    return Kube(settings.bin, settings.kubeconfig)


@pytest.fixture(scope="session")
def operator(kube: Kube, settings: Settings) -> Iterator[OperatorRelease]:
    """The operator of this checkout, the only one in the cluster; gone with its services at the end."""
    release = OperatorRelease(kube, settings)
    release.uninstall_all()
    _remove_spaces(kube)  # of a run that was interrupted
    release.load_images()
    release.install()
    yield release
    _remove_spaces(kube)
    release.uninstall_all()


def _remove_spaces(kube: Kube) -> None:
    """Services first: a namespace that holds pods is looked at again only after half of their grace period."""
    spaces = [space["metadata"]["name"] for space in kube.list("namespaces", "default", LABEL)]
    for space in spaces:
        kube("-n", space, "delete", "llm", "--all", "--wait=false")
        kube("-n", space, "delete", "pods", "-l", OURS, "--wait=false")
    for space in spaces:
        kube("-n", space, "wait", "--for=delete", "pods", "--all", "--timeout=60s")
    kube("delete", "namespaces", "-l", LABEL, "--ignore-not-found", "--timeout=200s")


@pytest.fixture(scope="session")
def new_space(kube: Kube, operator: OperatorRelease) -> NewSpace:
    """Makes a namespace; it lives until the end of the run, unless its test deletes it."""

    def make(purpose: str) -> str:
        name = f"test-{purpose}-{uuid.uuid4().hex[:6]}"
        kube("create", "namespace", name)
        kube("label", "namespace", name, LABEL)
        return name

    return make


@pytest.fixture(scope="session")
def smollm2(kube: Kube, new_space: NewSpace) -> Started:
    """`examples/smollm2.yaml`, serving."""
    return _start(kube, new_space("continuous"), "smollm2")


@pytest.fixture(scope="session")
def dynamic(kube: Kube, new_space: NewSpace) -> Started:
    """`examples/smollm2-dynamic.yaml`, serving."""
    return _start(kube, new_space("dynamic"), "smollm2-dynamic")


@pytest.fixture(scope="session")
def hub(kube: Kube, new_space: NewSpace, smollm2_files: Path, tmp_path_factory: pytest.TempPathFactory) -> HubPod:
    """A pod with hubs, each with one model."""
    pod = HubPod(kube, new_space("hub"))
    folder = tmp_path_factory.mktemp("hub")
    certificate(folder, pod.host)
    pod.start(smollm2_files, gguf_folder(), folder)
    return pod


def _start(kube: Kube, namespace: str, name: str) -> Started:
    service = Service(kube, namespace, name)
    with watching(kube, namespace, name) as watch:
        kube("-n", namespace, "apply", "-f", str(ROOT / "examples" / f"{name}.yaml"))
        service.wait_serving()
    return Started(service, watch)


@pytest.fixture(scope="module", autouse=True)
def within_its_role(operator: OperatorRelease) -> Iterator[None]:
    """Whatever a module does to the operator, Kubernetes never has to refuse it anything."""
    yield
    assert operator.refusals() == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails shows what there was in the cluster."""
    report = yield
    kube = getattr(item, "funcargs", {}).get("kube")
    if report is not None and report.failed and kube is not None:
        report.sections.append(("cluster", describe(kube, LABEL)))
    return report
