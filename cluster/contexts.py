"""A user's own cluster: accepted only when its name says that it is for tests, or when the user insists."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from cluster.errors import ClusterError
from cluster.settings import Settings
from cluster.shell import answer

TEST_WORDS = ("kind", "minikube", "k3d", "test")
INSIST = "--i-know-this-is-not-a-test-cluster"
OLDEST = (1, 30)  # ValidatingAdmissionPolicy is stable since
CONTEXT_VARIABLE = "LLMSERVICE_TEST_CONTEXT"


def is_for_tests(context: str, own: str) -> bool:
    """Whether a context's name says that nothing of value lives there."""
    return context == own or any(word in context.lower() for word in TEST_WORDS)


def check(settings: Settings, context: str, *, insist: bool = False) -> str:
    """The version of the cluster behind a context; raises ClusterError when it should or can not be used."""
    if not insist and not is_for_tests(context, settings.name):
        raise ClusterError(
            f"context {context!r} does not look like a test cluster (its name has none of {', '.join(TEST_WORDS)}): "
            f"the tests create and delete cluster-wide objects; if that is what you want, add {INSIST}"
        )
    found = json.loads(answer([kubectl(settings), "--context", context, "version", "--output=json"]))
    version: str = found["serverVersion"]["gitVersion"]
    if _minor(version) < OLDEST:
        raise ClusterError(f"context {context!r} runs Kubernetes {version}; {OLDEST[0]}.{OLDEST[1]} or later is needed")
    return version


def chosen_by_user(environment: Mapping[str, str] = os.environ) -> str | None:
    """The context in which a user wants the tests to run instead of in the embedded cluster."""
    return environment.get(CONTEXT_VARIABLE) or None


def export(settings: Settings, context: str, path: Path) -> Path:
    """Write a kubeconfig that knows this context only, so that nothing else can be reached by mistake."""
    text = answer([kubectl(settings), "--context", context, "config", "view", "--minify", "--flatten", "--output=json"])
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def kubectl(settings: Settings) -> str:
    """Our kubectl when it is there, else the user's; raises ClusterError when there is none."""
    ours = settings.bin / "kubectl"
    found = str(ours) if ours.exists() else shutil.which("kubectl")
    if found is None:
        raise ClusterError("kubectl is needed to look at another cluster: install it, or run `python3 -m cluster up`")
    return found


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.removeprefix("v").split(".")[:2]
    return int(major), int("".join(character for character in minor if character.isdigit()))
