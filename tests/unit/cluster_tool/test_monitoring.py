"""The cluster's Prometheus: what it scrapes, where it answers, and that teardown ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster import monitoring, targets
from cluster.api import Manifest
from cluster.errors import ClusterError
from cluster.settings import Settings
from cluster.teardown import STAGES
from llmservice.workload.names import METRICS_PORT

pytestmark = pytest.mark.unit


def pod(name: str, **status: Any) -> Manifest:
    ports = [{"name": "http", "containerPort": 8000}, {"name": "metrics", "containerPort": METRICS_PORT}]
    return {
        "metadata": {"namespace": "chat", "name": name},
        "spec": {"containers": [{"name": "triton", "ports": ports}, {"name": "sidecar"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.7", **status},
    }


def test_the_metrics_page_of_every_running_pod_is_a_target_with_the_labels_the_operator_looks_for() -> None:
    found = targets.targets_of([pod("a"), pod("b", phase="Pending"), pod("c", podIP="")])
    labels = {"namespace": "chat", "pod": "a", "container": "triton", "endpoint": "metrics"}
    assert found == [{"targets": [f"10.0.0.7:{METRICS_PORT}"], "labels": labels}]


class Listing:
    """Answers with pods."""

    def __init__(self) -> None:
        self.items: list[Manifest] = [pod("a")]

    def get(self, path: str) -> Manifest:
        assert path.startswith("/api/v1/pods?labelSelector=app.kubernetes.io%2Fname%3Dllmservice")
        return {"items": self.items}


def test_the_file_is_written_when_pods_come_or_go(tmp_path: Path) -> None:
    file, api = tmp_path / "targets.json", Listing()
    assert targets.write(api, file)  # type: ignore[arg-type]
    assert not targets.write(api, file)  # type: ignore[arg-type]
    api.items = []
    assert targets.write(api, file)  # type: ignore[arg-type]
    assert json.loads(file.read_text()) == []


def test_a_pod_can_be_hidden(settings: Settings) -> None:
    file = settings.state / "prometheus" / "targets.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(targets.targets_of([pod("a"), pod("b")])))
    monitoring.hide(settings, "a")
    assert [one["labels"]["pod"] for one in json.loads(file.read_text())] == ["b"]


def test_a_blind_one_scrapes_nothing(settings: Settings) -> None:
    assert monitoring.configuration(settings, scraping=False)["scrape_configs"] == []
    (job,) = monitoring.configuration(settings)["scrape_configs"]
    assert job["file_sd_configs"] == [{"files": [str(settings.state / "prometheus" / "targets.json")]}]


def test_it_answers_where_pods_reach_it_and_keeps_its_port(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.ports.any_free", lambda host, taken: 29090)
    assert monitoring.url(settings) == f"http://{settings.gateway}:29090"
    monkeypatch.setattr("cluster.ports.any_free", lambda host, taken: 29091)
    assert monitoring.url(settings) == f"http://{settings.gateway}:29090"


def test_without_a_cluster_there_is_none(settings: Settings) -> None:
    with pytest.raises(ClusterError, match="cluster t is down"):
        monitoring.start(settings)
    assert not monitoring.runs(settings)
    assert not monitoring.stop(settings)


def test_teardown_ends_it() -> None:
    assert {monitoring.NAME, monitoring.DISCOVERY} <= set(STAGES[0])
