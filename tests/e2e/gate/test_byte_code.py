"""Why the repository must not change under a running server: one new file turns an in-place change into a full load."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmservice.repository.render import Role
from llmservice.triton.client import TritonClient
from llmservice.triton.live import set_engine_instances
from tests.serving.eventually import PATIENCE_S, eventually
from tests.serving.paced_service import paced_service

pytestmark = pytest.mark.e2e


def test_running_models_write_no_byte_code_beside_their_code() -> None:
    with paced_service() as service:
        assert not list(Path(service.server.repository).rglob("*.pyc"))


async def test_a_new_file_in_the_version_folder_makes_triton_load_the_weights_again() -> None:
    with paced_service() as service:
        (before,) = service.processes("chat-engine")
        (Path(service.server.repository) / "chat-engine" / "1" / "model.pyc").write_bytes(b"")

        async with TritonClient(service.server.grpc_address) as client:
            await set_engine_instances(client, service.config(Role.ENGINE), 2)

        assert len(service.processes("chat-engine") - {before}) == 2, "both are new: the one there was did not count"
        await eventually(lambda: before not in service.processes("chat-engine"), PATIENCE_S, "the first process gone")
