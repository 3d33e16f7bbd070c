"""Models that lie on a claim or in a folder of the node: they serve from there, or what keeps them from it is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.main_job.asking import ANSWER, ask
from tests.e2e.main_job.cache_claim import claimed
from tests.e2e.main_job.causes import assert_cause, told
from tests.e2e.main_job.conftest import NewSpace
from tests.e2e.main_job.hub_pod import weights_only
from tests.e2e.main_job.kube import Kube, Manifest, Service, example
from tests.weights.small_model import small_model

pytestmark = pytest.mark.e2e

CLAIM = "models"
FOLDER = "{folder}"
"""Stands for the folder of the node that the claim is bound to."""


@dataclass(frozen=True)
class Fault:
    """A place where no model can be read: the step's exit code, and words of the cause."""

    name: str
    code: int
    says: tuple[str, ...]
    source: dict[str, Any]


def claim(path: str) -> dict[str, Any]:
    return {"pvc": {"claimName": CLAIM, "path": path}}


def folder_of_the_node(path: str) -> dict[str, Any]:
    return {"hostPath": {"path": f"{FOLDER}/{path}"}}


FAULTS = [
    Fault("no-such-folder", 3, ("NOT_FOUND", "there is no folder 'absent' of claim 'models'"), claim("absent")),
    Fault("an-empty-folder", 7, ("BAD_FORMAT", "folder 'empty' of claim 'models' is empty"), claim("empty")),
    Fault("no-path", 7, ("BAD_FORMAT", "claim 'models'", "config.json", "(llama, private)"), claim("")),
    Fault(
        "private-files",
        4,
        ("UNAUTHORIZED", "user 1000 may not read config.json in folder 'private' of claim 'models'", "chmod"),
        claim("private"),
    ),
    Fault("a-lost-link", 3, ("NOT_FOUND", "config.json in folder 'snapshot'", "../../blobs/abc"), claim("snapshot")),
    Fault("an-empty-folder-of-the-node", 7, ("BAD_FORMAT", "/empty is empty"), folder_of_the_node("empty")),
    Fault(
        "a-closed-folder-of-the-node",
        4,
        ("UNAUTHORIZED", "user 1000 may not read folder /", "/closed: let others read it"),
        folder_of_the_node("closed"),
    ),
]


@pytest.fixture(scope="module")
def folder(smollm2_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with models, readable by the pod's user (1000) where its name does not say otherwise."""
    top = tmp_path_factory.mktemp("volume") / "top"
    for name in ("empty", "snapshot"):
        (top / name).mkdir(parents=True)
    (top / "snapshot" / "config.json").symlink_to("../../blobs/abc")
    shutil.copytree(smollm2_files, top / "llama", copy_function=_link)
    for name in ("private", "closed"):
        (top / name).mkdir()
        for file, content in small_model().items():
            (top / name / file).write_bytes(content)
            (top / name / file).chmod(0o600)
    for name, mode in ((".", 0o755), ("llama", 0o755), ("closed", 0o700)):
        (top / name).chmod(mode)
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def space(kube: Kube, new_space: NewSpace, folder: Path) -> Iterator[str]:
    """A namespace with two services that serve and all that cannot, made at once, and with their claim."""
    namespace = new_space("volumes")
    with claimed(kube, namespace, CLAIM, folder):
        kube("-n", namespace, "wait", "--for=jsonpath={.status.phase}=Bound", f"pvc/{CLAIM}", "--timeout=60s")
        for name, source in (("on-a-claim", claim("llama")), ("on-the-node", folder_of_the_node("llama"))):
            manifest = example("smollm2")
            manifest["metadata"] = {"name": name, "namespace": namespace}
            manifest["spec"]["model"]["source"] = _placed(source, folder)
            manifest["spec"]["drain"] = {"timeout": "1s"}
            manifest["spec"]["template"]["resources"]["requests"]["cpu"] = "50m"  # two cores are enough for all of them
            kube.apply(manifest)
        for fault in FAULTS:
            source = _placed(fault.source, folder)
            kube.apply(weights_only(namespace, fault.name, source, engine={"backend": "torch"}))
        yield namespace
        kube("-n", namespace, "delete", "llm", "--all")
        kube("-n", namespace, "wait", "--for=delete", "pods", "--all", "--timeout=90s")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_cause_is_named_in_status_event_and_exit_code(fault: Fault, kube: Kube, space: str) -> None:
    service = Service(kube, space, fault.name)
    assert_cause(service, fault.code, fault.says)
    service.delete()


@pytest.mark.parametrize("name", ["on-a-claim", "on-the-node"])
def test_it_serves_from_where_it_lies(name: str, kube: Kube, space: str) -> None:
    service = Service(kube, space, name)
    service.wait_serving()
    assert service.status()["weights"]["phase"] == "Ready"
    with kube.forward(space, f"service/{name}", 8000) as (port,):
        assert ask(port, name)["text_output"] == ANSWER
    service.delete()


def test_a_claim_without_a_volume_is_named(kube: Kube, space: str) -> None:
    metadata = {"name": "unbound", "namespace": space}
    spec = {"accessModes": ["ReadOnlyMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    kube.apply(weights_only(space, "unbound", {"pvc": {"claimName": "unbound"}}))
    service = Service(kube, space, "unbound")
    assert "not bound to a volume" in told(service, "VolumeMissing")
    service.delete()


def _placed(source: dict[str, Any], folder: Path) -> Manifest:
    """The source with the folder that `FOLDER` stands for."""
    return {
        kind: {key: text.replace(FOLDER, str(folder)) for key, text in said.items()} for kind, said in source.items()
    }


def _link(source: str, target: str) -> None:
    """Links where both are on one file system, else copies."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
