"""The cluster's Prometheus: what it scrapes, where it answers, and that the chart's values tell the operator."""

from __future__ import annotations

import pytest

from cluster import monitoring
from cluster.errors import ClusterError
from cluster.settings import Settings
from cluster.teardown import STAGES
from llmservice.workload.names import labels

pytestmark = pytest.mark.unit


def test_it_keeps_the_pods_of_services_and_their_metrics_pages(settings: Settings) -> None:
    (job,) = monitoring.configuration(settings)["scrape_configs"]
    kept = {rule["source_labels"][0]: rule["regex"] for rule in job["relabel_configs"] if rule.get("action") == "keep"}
    name = labels("chat")["app.kubernetes.io/name"]
    assert kept["__meta_kubernetes_pod_label_app_kubernetes_io_name"] == name
    assert "metrics" in kept["__meta_kubernetes_pod_container_port_name"].split("|")
    targets = {rule["target_label"] for rule in job["relabel_configs"] if "target_label" in rule}
    assert targets == {"namespace", "pod"}, "the operator finds its series by these two"
    assert job["kubernetes_sd_configs"] == [{"role": "pod", "kubeconfig_file": str(settings.kubeconfig)}]


def test_a_blind_one_scrapes_nothing(settings: Settings) -> None:
    assert monitoring.configuration(settings, scraping=False)["scrape_configs"] == []


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
    assert monitoring.NAME in STAGES[0]
