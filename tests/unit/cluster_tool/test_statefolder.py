"""A cluster's folder is made, refused when it is another's, and goes at once."""

from __future__ import annotations

from collections import defaultdict

import pytest

from cluster import cgroups, lifecycle, ports, statefolder
from cluster.errors import ClusterError
from cluster.settings import Settings

pytestmark = pytest.mark.unit


def test_a_folder_with_other_files_is_refused(settings: Settings) -> None:
    settings.state.mkdir(parents=True)
    (settings.state / "mine").touch()
    with pytest.raises(ClusterError, match="not a cluster's state folder"):
        statefolder.ensure(settings)


def test_it_goes_with_what_an_interrupted_removal_left(settings: Settings) -> None:
    statefolder.ensure(settings)
    left = settings.state.with_name(f".{settings.state.name}.removed-1")
    left.mkdir()
    (left / "file").touch()
    statefolder.remove(settings)
    assert not settings.state.exists()
    assert not left.exists()


def test_a_look_writes_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in the middle of `down` left a file in the folder: `down` failed, and no `up` took the folder any more."""
    statefolder.ensure(settings)
    monkeypatch.setattr(ports, "read", lambda _: defaultdict(lambda: 1, api=1))
    monkeypatch.setattr(cgroups, "ensure_root", lambda _: "/t")
    looked = lifecycle.status(settings)
    assert {"etcd", "containerd", "kubelet", "kube-proxy", "coredns"} <= {one.name for one in looked if one.pid is None}
    assert [file.name for file in settings.state.rglob("*")] == [statefolder.MARKER]
