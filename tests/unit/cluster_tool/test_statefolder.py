"""A cluster's folder is made, refused when it is another's, and goes at once."""

from __future__ import annotations

import pytest

from cluster import lifecycle, ports, statefolder
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


def test_a_look_while_the_folder_goes_finds_no_cluster(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking writes configuration, so that a look in the middle of `down` left a file in the folder, and it stayed."""
    statefolder.ensure(settings)

    def looked(_: Settings, __: dict[str, int]) -> list[object]:
        statefolder.remove(settings)
        (settings.state / "kube-proxy.json").write_text("{}")
        return []

    monkeypatch.setattr(ports, "read", lambda _: {"api": 1})
    monkeypatch.setattr(lifecycle, "_all", looked)
    assert lifecycle.status(settings) == []
    assert not settings.state.exists()
