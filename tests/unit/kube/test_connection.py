"""Kubeconfigs that are not there: one error that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmservice.kube.connection import open_connection
from llmservice.kube.errors import Unavailable

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("by_option", [True, False])
async def test_a_kubeconfig_that_is_not_there_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, by_option: bool
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    files = str(tmp_path / "none") if by_option else f"{tmp_path / 'none'}:{tmp_path / 'neither'}"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "other") if by_option else files)
    with pytest.raises(Unavailable, match="there is no kubeconfig ") as caught:
        await open_connection(Path(files) if by_option else None, None)
    assert f"no kubeconfig {files}; name one in KUBECONFIG or --kubeconfig" in caught.value.message
    assert not caplog.records, "the client library says nothing beside it"
