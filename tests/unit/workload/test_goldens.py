"""Every case builds exactly its golden manifests, and Kubernetes' own schemas accept each of them.

After a change that is meant, run with LLMSERVICE_WRITE_GOLDENS=1, read the diff, and commit it with the change.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from tests.unit.workload.cases import CASES, Case

pytestmark = pytest.mark.unit

GOLDENS = Path(__file__).with_name("goldens")
CUSTOM = {"PodMonitor", "LeaderWorkerSet"}
"""Kinds whose schema comes with another project and not with Kubernetes."""


class Readable(yaml.SafeDumper):
    """No aliases, and texts of several lines as they are."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def literal(dumper: Readable, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Readable.add_representer(str, literal)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_builds_its_golden_manifests(case: Case) -> None:
    path = GOLDENS / f"{case.name}.yaml"
    built = case.build().manifests
    if os.environ.get("LLMSERVICE_WRITE_GOLDENS") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.dump_all(built, Dumper=Readable, sort_keys=False, width=1000))
    assert list(yaml.safe_load_all(path.read_text())) == list(built)


def test_every_golden_belongs_to_a_case() -> None:
    assert {path.stem for path in GOLDENS.iterdir()} == {case.name for case in CASES}


@pytest.mark.parametrize("version", ["1.30", "1.34"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kubernetes_accepts_every_golden(case: Case, version: str) -> None:
    for manifest in yaml.safe_load_all((GOLDENS / f"{case.name}.yaml").read_text()):
        if manifest["kind"] in CUSTOM:
            continue
        if case.claims and version == "1.30" and manifest["kind"] in {"Deployment", "ResourceClaimTemplate"}:
            with pytest.raises((kubernetes_validate.ValidationError, kubernetes_validate.utils.SchemaNotFoundError)):
                kubernetes_validate.validate(manifest, version, strict=True)
            continue
        if case.image_volumes and version == "1.30" and manifest["kind"] == "Deployment":
            with pytest.raises(kubernetes_validate.ValidationError, match="image"):
                kubernetes_validate.validate(manifest, version, strict=True)
        else:
            kubernetes_validate.validate(manifest, version, strict=True)
