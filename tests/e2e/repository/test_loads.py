"""Every repository rendered from any valid spec loads in a real tritonserver.

So that hundreds can be tried on any machine, the code of gate and engine is a stand-in that computes nothing, and
instances on a GPU (KIND_GPU, KIND_MODEL) become KIND_CPU; every other field is as rendered. One server in explicit
mode without auto-completion loads each model under a name of its own, then unloads it.
LLMSERVICE_E2E_REPOSITORIES sets how many are drawn beside the goldens (default 100).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.e2e.repository.loading import Server, load_and_unload, loading_server, renderings
from tests.unit.repository.cases import CASES, STOCK_CASES, Case
from tests.unit.repository.strategies import cases

pytestmark = pytest.mark.e2e

DRAWN = int(os.environ.get("LLMSERVICE_E2E_REPOSITORIES", "100"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    with loading_server(tmp_path_factory.mktemp("loads")) as server:
        yield server
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(  # noqa: T201 - a figure
            f"\n{server.loaded} rendered models loaded in a real tritonserver, stock backends for {server.images} "
            "pairs of service and image",
            end="",
        )


@pytest.mark.parametrize("case", [*CASES, *STOCK_CASES], ids=lambda case: case.name)
async def test_every_golden_loads(server: Server, case: Case) -> None:
    await load_and_unload(server, case)


def named(alike: list[Case]) -> str:
    return f"{alike[0].name}-{alike[0].triton}"


@pytest.mark.parametrize("cases_alike", renderings(STOCK_CASES), ids=named)
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
