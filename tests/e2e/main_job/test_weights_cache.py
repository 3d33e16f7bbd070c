"""A model of a hub comes once to a node, in pods: progress, a second start, and services that share a cache."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import images
from cluster.settings import Settings
from tests.e2e.main_job.asking import ANSWER, ask
from tests.e2e.main_job.cache_claim import claimed, small_volume
from tests.e2e.main_job.conftest import NewSpace, Started
from tests.e2e.main_job.hub_pod import GGUF, OTHER, SLOW, SMOLLM2, HubPod, weights_only
from tests.e2e.main_job.kube import Kube, Manifest, Service, condition, example
from tests.e2e.main_job.operator_release import NAMESPACE, RELEASE
from tests.e2e.main_job.waiting import eventually
from tests.e2e.main_job.watching import watching
from tests.weights.hub_server import COMMIT

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def first(kube: Kube, hub: HubPod, new_space: NewSpace) -> Iterator[Started]:
    """SmolLM2 of a hub, in the node's cache, serving. The hub is slow until the status has told so."""
    manifest = example("smollm2")
    namespace, name = new_space("first"), manifest["metadata"]["name"]
    manifest["metadata"]["namespace"] = namespace
    manifest["spec"]["model"]["source"] = hub.source(SMOLLM2)
    service = Service(kube, namespace, name)
    with watching(kube, namespace, name) as watch:
        kube.apply(manifest)
        eventually(lambda: weights(service).get("secondsLeft"), "the status tells how long it will take", 90)
        hub.set_rate(SMOLLM2, 0)
        service.wait_serving()
    yield Started(service, watch)
    service.delete()


@pytest.fixture(scope="module")
def sharing(kube: Kube, new_space: NewSpace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A namespace with a claim `cache`, on which one of the two small models of the hub has room, and not both."""
    namespace = new_space("sharing")
    folder = tmp_path_factory.mktemp("shared") / "cache"
    with small_volume(folder, 5000) as volume, claimed(kube, namespace, "cache", volume):
        yield namespace
        kube("-n", namespace, "delete", "llm", "--all")
        kube("-n", namespace, "wait", "--for=delete", "pods", "--all", "--timeout=60s")


def test_progress_is_in_the_status_and_in_its_words(first: Started) -> None:
    told = [status for status in first.watch.statuses if (status.get("weights") or {}).get("secondsLeft")]
    progress = told[0]["weights"]
    assert progress["phase"] == "Fetching"
    assert 0 <= progress["percent"] < 100
    assert 5e6 < progress["bytesPerSecond"] < 50e6
    assert progress["totalBytes"] > 1e8
    ready = condition(told[0], "Ready")
    assert told[0]["summary"] == ready["reason"] == "FetchingWeights"
    for words in ("download: ", " % of ", " MB/s, about ", " left"):
        assert words in ready["message"]


def test_it_serves_what_came_once_and_status_says_how_much(first: Started, hub: HubPod, kube: Kube) -> None:
    service, counts = first.service, hub.counts(SMOLLM2)
    assert counts["sent"] == counts["size"]
    found = weights(service)
    assert (found["phase"], found["revision"]) == ("Ready", COMMIT)
    assert found["transferredBytes"] == found["totalBytes"] == counts["size"]
    with kube.forward(service.namespace, f"service/{service.name}", 8000) as (port,):
        assert ask(port, service.name)["text_output"] == ANSWER


def test_a_second_start_on_the_node_downloads_nothing(
    first: Started, hub: HubPod, kube: Kube, new_space: NewSpace
) -> None:
    before = hub.counts(SMOLLM2)
    second = Service(kube, new_space("second"), "second")
    kube.apply(weights_only(second.namespace, second.name, hub.source(SMOLLM2)))
    found = eventually(lambda: is_ready(second), "the model is there", 90)
    assert found["transferredBytes"] == 0
    assert found["totalBytes"] == before["size"]
    assert hub.counts(SMOLLM2) == before
    second.delete()
    gone(second)
    with kube.forward(first.service.namespace, f"service/{first.service.name}", 8000) as (port,):
        assert ask(port, first.service.name)["text_output"] == ANSWER


def test_a_gguf_file_comes_and_the_serving_image_converts_it(kube: Kube, hub: HubPod, new_space: NewSpace) -> None:
    service = Service(kube, new_space("gguf"), "gguf")
    source = hub.source(GGUF, file="*.Q4_1.gguf")
    kube.apply(weights_only(service.namespace, service.name, source, engine={"backend": "torch"}))
    found = eventually(lambda: weights(service).get("config"), "what was made of the file has been read", 90)
    assert json.loads(str(found))["num_hidden_layers"] == 30
    counts = hub.counts(GGUF)
    (name,) = counts["asked"]
    assert name.endswith(".gguf")
    assert weights(service)["transferredBytes"] == counts["sent"]
    service.delete()


def test_the_one_that_waits_goes_on_when_the_one_that_fetches_is_deleted(kube: Kube, hub: HubPod, sharing: str) -> None:
    one, other = (start(kube, hub, sharing, name, SLOW) for name in ("one", "other"))
    phases = eventually(lambda: both_began(one, other), "one fetches, the other waits", 90)
    fetching, waiting = (one, other) if phases == ["Fetching", "Waiting"] else (other, one)
    fetching.delete()
    gone(fetching)
    hub.set_rate(SLOW, 0)
    found = eventually(lambda: is_ready(waiting), "the other has fetched the rest", 90)
    counts = hub.counts(SLOW)
    assert counts["sent"] / counts["size"] <= 1.1
    assert found["transferredBytes"] < counts["size"]


def test_what_a_pod_uses_stays_and_goes_with_it(kube: Kube, hub: HubPod, sharing: str) -> None:
    user = Service(kube, sharing, "user")
    kube.apply(weights_only(sharing, user.name, hub.source(SLOW), model=CACHED))
    eventually(lambda: is_ready(user), "the model is there", 90)
    for name in ("one", "other"):
        Service(kube, sharing, name).delete()
        gone(Service(kube, sharing, name))
    newcomer = start(kube, hub, sharing, "newcomer", OTHER)
    ready = eventually(lambda: blocked(newcomer), "there is no room", 90)
    assert "DISK_FULL" in ready["message"]
    assert "1 other models are kept, for live pods use them" in ready["message"]
    user.delete()
    eventually(lambda: is_ready(newcomer), "the other model has made room", 90)


def test_nodes_are_prepared(kube: Kube, operator: object, settings: Settings) -> None:
    daemons = kube.get("daemonset", NAMESPACE, f"{RELEASE}-nodes")["status"]
    assert daemons["numberReady"] == daemons["desiredNumberScheduled"] > 0
    found = kube.list("pods", NAMESPACE, "app.kubernetes.io/name=llmservice-nodes")
    (pod,) = [one for one in found if one["spec"]["nodeName"] == settings.node]
    ends = {one["name"]: one["state"]["terminated"]["exitCode"] for one in pod["status"]["initContainerStatuses"]}
    pulled = {one["image"] for one in pod["spec"]["initContainers"] if one["name"].startswith("pull-")}
    assert set(ends.values()) == {0}
    assert "cache" in ends
    assert images.IMAGES["triton-cpu"].tag in pulled
    folder = Path(settings.weights).stat()
    assert (folder.st_uid, folder.st_gid, stat.S_IMODE(folder.st_mode)) == (1000, 1000, 0o775)


CACHED = {"cache": {"claimName": "cache"}}


def start(kube: Kube, hub: HubPod, namespace: str, name: str, port: int) -> Service:
    kube.apply(weights_only(namespace, name, hub.source(port), model=CACHED))
    return Service(kube, namespace, name)


def weights(service: Service) -> Manifest:
    found: Manifest = service.status().get("weights") or {}
    return found


def is_ready(service: Service) -> Manifest:
    """The status of its weights once they are there."""
    found = weights(service)
    return found if found.get("phase") == "Ready" else {}


def both_began(*services: Service) -> list[str]:
    """Their phases, once one fetches and the other waits."""
    phases = [str(weights(service).get("phase")) for service in services]
    return phases if sorted(phases) == ["Fetching", "Waiting"] else []


def blocked(service: Service) -> Manifest:
    ready = service.condition("Ready")
    return ready if ready.get("reason") == "ModelSourceFailed" else {}


def gone(service: Service) -> None:
    """Returns once all its pods are gone, those on their way out too."""
    eventually(lambda: not service.kube.list("pods", service.namespace, service.selector), "its pods are gone", 60)
