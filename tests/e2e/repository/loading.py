"""Rendered repositories loaded by a real tritonserver, with a stand-in for what computes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from llmservice.local.tritonserver import TritonServer
from llmservice.repository.errors import RenderError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.images import serving_images
from llmservice.repository.proto import to_load_json
from llmservice.repository.render import render
from llmservice.triton.client import TritonClient
from llmservice.triton.comparison import differing_fields, instances
from tests.e2e.triton.standin import Starts, code_folder, config_of, write
from tests.unit.repository.cases import Case, service


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


@contextlib.contextmanager
def loading_server(root: Path) -> Iterator[Server]:
    """A tritonserver without models, its files below `root`."""
    (root / "repository").mkdir()
    starts = Starts(root / "starts")
    with TritonServer(root / "repository", env={"STARTS": str(starts.file)}) as running:
        yield Server(running.grpc_address, root / "repository", code_folder(root / "code"), starts)


async def load_and_unload(server: Server, case: Case) -> None:
    """Every model loads from the file; the load API's form of the same is no change at all to Triton.

    Raises TritonError where it does not load, AssertionError where Triton has something else than was rendered.
    """
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


def renderings(cases: Iterable[Case]) -> list[list[Case]]:
    """Every case for every image that takes it; those that render the same text are together."""
    found: dict[tuple[tuple[str, str], ...], list[Case]] = {}
    for case in cases:
        for image in serving_images():
            asked = replace(case, triton=image.triton)
            with contextlib.suppress(RenderError):
                found.setdefault(tuple(sorted(asked.render().files.items())), []).append(asked)
    return list(found.values())
