"""Ports are kept for a cluster's life, and never taken from somebody else."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from cluster import ports, processes
from cluster.errors import ClusterError
from cluster.settings import Settings

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def state_folder(settings: Settings) -> None:
    settings.state.mkdir()


def test_every_component_gets_a_port_of_its_own_and_keeps_it(settings: Settings) -> None:
    first = ports.ensure(settings, "127.0.0.1")
    assert len(set(first.values())) == len(ports.PREFERRED)
    assert ports.ensure(settings, "127.0.0.1") == first == ports.read(settings)


def test_a_preferred_port_that_is_taken_gives_way_to_a_free_one(
    settings: Settings, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ports.PREFERRED, "etcd", taken)
    assert ports.ensure(settings, "127.0.0.1")["etcd"] != taken


def test_a_wished_port_that_is_taken_names_its_holder_and_the_remedy(settings: Settings, taken: int) -> None:
    with pytest.raises(ClusterError, match=rf"port {taken} .* in use by .*process \d+.*LLMSERVICE_CLUSTER_API_PORT"):
        ports.ensure(replace(settings, api_port=taken), "127.0.0.1")


def test_a_port_lost_to_somebody_while_its_component_did_not_run_is_exchanged(settings: Settings) -> None:
    first = ports.ensure(settings, "127.0.0.1")
    with socket.create_server(("127.0.0.1", first["etcd"])):
        second = ports.ensure(settings, "127.0.0.1")
    assert second["etcd"] != first["etcd"]
    assert {**second, "etcd": first["etcd"]} == first
    assert ports.read(settings) == second


def test_a_port_on_which_its_component_listens_is_kept(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ports.ensure(settings, "127.0.0.1")
    running = processes.Running(pid=1, started=1, digest="")
    monkeypatch.setattr(processes, "running", lambda _, name: running if name == "etcd" else None)
    with socket.create_server(("127.0.0.1", first["etcd"])):
        assert ports.ensure(settings, "127.0.0.1") == first


def test_another_wish_for_a_running_cluster_is_refused(settings: Settings) -> None:
    ports.ensure(settings, "127.0.0.1")
    with pytest.raises(ClusterError, match="cluster down"):
        ports.ensure(replace(settings, api_port=1), "127.0.0.1")
