"""Every repository rendered from any valid spec loads in a real tritonserver.

So that hundreds can be tried on any machine, the code of gate and engine is a stand-in that computes nothing, and
instances on a GPU (KIND_GPU, KIND_MODEL) become KIND_CPU; every other field is as rendered. One server in explicit
mode without auto-completion loads each model under a name of its own, then unloads it.
LLMSERVICE_E2E_REPOSITORIES sets how many are drawn beside the goldens (default 100).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from llmservice.local.tritonserver import TritonServer
from llmservice.repository.errors import RenderError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.images import serving_images
from llmservice.repository.proto import to_load_json
from llmservice.repository.render import render
from llmservice.triton.client import TritonClient
from llmservice.triton.comparison import differing_fields, instances
from tests.e2e.triton.standin import Starts, code_folder, config_of, write
from tests.unit.repository.cases import CASES, STOCK_CASES, Case, service
from tests.unit.repository.strategies import cases

pytestmark = pytest.mark.e2e

DRAWN = int(os.environ.get("LLMSERVICE_E2E_REPOSITORIES", "100"))


@dataclass
class Server:
    """A running tritonserver and what was loaded into it."""

    address: str
    folder: Path
    code: Path
    starts: Starts
    names: Iterator[int] = field(default_factory=itertools.count)
    loaded: int = 0
    images: int = 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("loads")
    (root / "repository").mkdir()
    starts = Starts(root / "starts")
    with TritonServer(root / "repository", env={"STARTS": str(starts.file)}) as running:
        server = Server(running.grpc_address, root / "repository", code_folder(root / "code"), starts)
        yield server
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(  # noqa: T201 - a figure
            f"\n{server.loaded} rendered models loaded in a real tritonserver, stock backends for {server.images} "
            "pairs of service and image",
            end="",
        )


async def load_and_unload(server: Server, case: Case) -> None:
    """Every model loads from the file; the load API's form of the same is no change at all to Triton."""
    name = f"s{next(server.names)}"
    repository = render(service(case.spec, name), case.plan, case.knobs, TritonFeatures.for_version(case.triton))
    write(repository, server.folder, server.code)
    async with TritonClient(server.address) as client:
        for model in reversed(repository.models):
            config = config_of(repository, model)
            before = server.starts.of(config.name)
            await client.load(config.name)
            assert differing_fields(config, await client.model_config(config.name)) == ()
            if config.platform != "ensemble":
                await client.load(config.name, to_load_json(config))
                assert server.starts.of(config.name) - before == instances(config), "the load API's form was a reload"
            assert await client.ready(config.name)
            server.loaded += 1
        for model in repository.models:
            await client.unload(model.name)


@pytest.mark.parametrize("case", [*CASES, *STOCK_CASES], ids=lambda case: case.name)
async def test_every_golden_loads(server: Server, case: Case) -> None:
    await load_and_unload(server, case)


def stock_renderings() -> dict[tuple[tuple[str, str], ...], list[Case]]:
    """Every stock golden for every image that takes it; those that render the same text are loaded once."""
    found: dict[tuple[tuple[str, str], ...], list[Case]] = {}
    for case in STOCK_CASES:
        for image in serving_images():
            asked = replace(case, triton=image.triton)
            with contextlib.suppress(RenderError):
                found.setdefault(tuple(sorted(asked.render().files.items())), []).append(asked)
    return found


def named(alike: list[Case]) -> str:
    return f"{alike[0].name}-{alike[0].triton}"


@pytest.mark.parametrize("cases_alike", stock_renderings().values(), ids=named)
async def test_every_stock_backend_loads_for_every_image(server: Server, cases_alike: list[Case]) -> None:
    await load_and_unload(server, cases_alike[0])
    server.images += len(cases_alike)


@given(case=cases())
@settings(
    max_examples=DRAWN,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_valid_service_loads(server: Server, case: Case) -> None:
    # Instances are processes here; two show as much as many.
    knobs = case.knobs.model_copy(update={"engine_instances": min(2, case.knobs.engine_instances)})
    asyncio.run(load_and_unload(server, replace(case, knobs=knobs)))
