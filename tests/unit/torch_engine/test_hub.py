"""A Hugging Face hub as source, played by a server on this host: pinned, with a token, resumed, refusals told apart."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlparse

import pytest

from llmserving.weight_progress import ExitCode, Progress, WeightsError
from llmserving.weights import prepare
from tests.unit.torch_engine.tiny import engine_on, greedy, run

pytestmark = pytest.mark.unit

COMMIT = "a" * 40
TOKEN = "hf_secret"


class Hub(BaseHTTPRequestHandler):
    """Three repositories: `org/tiny` is open, `org/private` wants the token, `org/gated` wants terms accepted."""

    folder: ClassVar[Path]
    asked: ClassVar[list[str]]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlparse(self.path).path
        self.asked.append(f"{self.command} {path}")
        if "org/gated" in path:
            self.answer(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "accept the terms"})
        elif "org/private" in path and self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif "org/" not in path or "org/nothing" in path:
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif "/revision/" in path:
            self.describe(path.rpartition("/revision/")[2])
        elif "/tree/" in path:
            self.list_files(path.rpartition("/tree/")[2])
        else:
            self.send_file(path)

    def list_files(self, revision: str) -> None:
        assert revision == COMMIT
        found = [
            {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": "0" * 40}
            for path in sorted(self.folder.iterdir())
        ]
        self.answer(200, json.dumps(found).encode(), {})

    def describe(self, revision: str) -> None:
        if revision not in ("main", COMMIT):
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            return
        files = [{"rfilename": path.name, "size": path.stat().st_size} for path in sorted(self.folder.iterdir())]
        files.append({"rfilename": "pytorch_model.bin", "size": 10**12})
        self.answer(200, json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": files}).encode(), {})

    def send_file(self, path: str) -> None:
        assert f"/resolve/{COMMIT}/" in path, "files are fetched of one commit, even when a branch was asked for"
        content = (self.folder / path.rpartition("/")[2]).read_bytes()
        tag = hashlib.sha256(content).hexdigest()
        self.answer(200, content, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not into the tests' output."""


@pytest.fixture
def hub(tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    Hub.folder, Hub.asked = tiny_llama, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def fetch(endpoint: str, target: Path, repo: str = "org/tiny", revision: str = "main") -> Path:
    source = {"huggingFace": {"repo": repo, "revision": revision, "endpoint": endpoint}}
    return prepare(source, target, progress=Progress(io.StringIO()))


def test_a_repository_is_fetched_at_one_commit_without_other_forms_of_the_weights(
    hub: str, tmp_path: Path, tiny_llama: Path
) -> None:
    folder = fetch(hub, tmp_path / "models")
    assert not any("pytorch_model.bin" in asked for asked in Hub.asked)
    answers = [run(engine_on(place), greedy(1, "Once"))[1].tokens for place in (folder, tiny_llama)]
    assert answers[0] == answers[1]
    Hub.asked.clear()
    fetch(hub, tmp_path / "models")
    assert Hub.asked == []


def test_a_private_repository_is_fetched_with_the_token(
    hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert (fetch(hub, tmp_path / "models", "org/private", COMMIT) / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("repo", "revision", "code", "words"),
    [
        ("org/private", "main", ExitCode.UNAUTHORIZED, "tokenSecretRef"),
        ("org/gated", "main", ExitCode.UNAUTHORIZED, "accept its terms"),
        ("org/nothing", "main", ExitCode.NOT_FOUND, "no repository org/nothing"),
        ("org/tiny", "v9", ExitCode.NOT_FOUND, "no revision 'v9'"),
    ],
)
def test_refusals_are_told_apart(
    hub: str, tmp_path: Path, repo: str, revision: str, code: ExitCode, words: str
) -> None:
    with pytest.raises(WeightsError, match=words) as caught:
        fetch(hub, tmp_path / "models", repo, revision)
    assert caught.value.code is code
    assert "\n" not in str(caught.value)


def test_a_hub_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="could not be reached") as caught:
        fetch("http://127.0.0.1:9", tmp_path / "models")
    assert caught.value.code is ExitCode.NETWORK


def test_an_image_without_the_hub_s_client_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "huggingface_hub" else found(name))
    with pytest.raises(WeightsError, match="take an image") as told:
        prepare({"huggingFace": {"repo": "org/tiny"}}, tmp_path, progress=Progress(io.StringIO()))
    assert told.value.code is ExitCode.INVALID_SOURCE
