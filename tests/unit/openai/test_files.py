"""Keys and certificates that change while they are in use."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest

from llmservice.openai.keys import ApiKeys
from llmservice.openai.tls import Certificate
from tests.unit.openai.endpoints import running
from tests.unit.openai.self_signed import write_certificate

pytestmark = pytest.mark.unit


def test_a_key_is_known_by_its_files_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("sk-a\n")
    (tmp_path / "b").write_text("sk-ü")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "..data").mkdir()
    keys = ApiKeys(tmp_path)
    assert keys.client("Bearer sk-a") == "a"
    assert keys.client("bearer  sk-ü ") == "b"
    for header in ("", "sk-a", "Bearer", "Bearer ", "Bearer sk", "Bearer sk-a-", "Basic sk-a"):
        assert keys.client(header) is None


def test_new_keys_count_at_the_next_look_and_old_ones_no_more(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    keys = ApiKeys(tmp_path)
    assert not keys.reload()
    (tmp_path / "a").write_text("new")
    assert keys.reload()
    assert (keys.client("Bearer old"), keys.client("Bearer new")) == (None, "a")
    (tmp_path / "a").unlink()
    assert keys.reload()
    assert keys.client("Bearer new") is None


def test_a_folder_that_is_gone_leaves_the_keys_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "a").write_text("sk-a")
    keys = ApiKeys(folder)
    (folder / "a").unlink()
    folder.rmdir()
    assert not keys.reload()
    assert keys.client("Bearer sk-a") == "a"


async def test_a_renewed_certificate_serves_the_next_connection(tmp_path: Path) -> None:
    write_certificate(tmp_path, "first")
    certificate = Certificate(tmp_path)
    assert not certificate.reload()
    write_certificate(tmp_path, "second")
    assert certificate.reload()
    (tmp_path / "tls.key").write_text("half a key")
    assert not certificate.reload()


async def test_it_serves_over_tls_with_the_certificate_of_the_folder(tmp_path: Path) -> None:
    authority = write_certificate(tmp_path, "first")
    async with running(tls=tmp_path) as found:
        url = found.served.url.replace("http://", "https://")
        trusting = ssl.create_default_context(cadata=authority)
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{url}/v1/models", ssl=trusting) as answer:
                assert answer.status == 200
            async with http.get(f"{found.admin_url}/readyz") as answer:
                assert answer.status == 200


def test_a_folder_without_a_certificate_is_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Certificate(tmp_path)
