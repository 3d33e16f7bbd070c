"""Replicas without Triton: pods that are said to be ready, and behind their addresses what the operator asks of one.

Each pod gets a loopback address of its own. On port 8002 it serves a metrics page in the gate's and the engine's names,
on port 8001 Triton's gRPC with the configuration that the pod's ConfigMap holds, so the operator finds its live knobs
as it wants them. At rest the page never changes; under load every figure of the columns does, at every look.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
import numpy as np
from aiohttp import web
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]
from tritonclient.utils import serialize_byte_tensor  # type: ignore[import-untyped]

from llmservice.kube import resources
from llmservice.kube.errors import KubeError
from llmservice.kube.real import RealKube
from llmservice.kube.resources import Manifest
from llmservice.repository.engine_config import CONTROL_TENSOR
from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.repository.render import Repository
from llmservice.triton.live import SLOTS
from llmservice.workload.names import GRPC_PORT, INSTANCE_LABEL, METRICS_PORT, REVISION_LABEL, revision_name

KUBELET: Final = "benchmark-kubelet"
PERIOD: Final = 0.25
BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
MOST_TOKENS_PER_SECOND: Final = 1000.0
MOST_FIRST_TOKENS: Final = 20


@dataclass
class MetricsPage:
    """What one replica's metrics endpoint says."""

    service: str
    waiting: int = 0
    tokens: float = 0.0
    first_tokens: dict[float, int] = field(default_factory=lambda: dict.fromkeys(BUCKETS, 0))
    read_at: float = field(default_factory=time.monotonic)

    def under_load(self, draw: random.Random) -> None:
        """Lets the time since the last look pass under a load that is another one each time."""
        now = time.monotonic()
        self.waiting = draw.randrange(100)
        self.tokens += draw.random() * MOST_TOKENS_PER_SECOND * (now - self.read_at)
        slowest = draw.choice(BUCKETS)
        for end in self.first_tokens:
            self.first_tokens[end] += draw.randrange(MOST_FIRST_TOKENS) if end <= slowest else 0
        self.read_at = now

    def text(self) -> str:
        """The page in Prometheus' text form."""
        gate = f'model="{self.service}",version="1"'
        lines = [f"nv_inference_pending_request_count{{{gate}}} {self.waiting}"]
        lines += [f'llm_gate_held_requests{{{gate},instance="{number}"}} 0' for number in range(GATE_INSTANCES)]
        lines += [f'llm_engine_tokens_total{{model="{self.service}-engine",kind="generated"}} {self.tokens:.0f}']
        total = 0
        for end, count in self.first_tokens.items():
            total += count
            lines.append(f'llm_time_to_first_token_seconds_bucket{{{gate},le="{end}"}} {total}')
        lines.append(f'llm_time_to_first_token_seconds_bucket{{{gate},le="+Inf"}} {total}')
        return "\n".join(lines) + "\n"


class Replicas(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Every stand-in replica of one benchmark. `loaded` turns the load on."""

    def __init__(self, client: RealKube, namespaces: tuple[str, ...], most: int) -> None:
        self.loaded = False
        self._client = client
        self._namespaces = namespaces
        self._free = [f"127.77.{number // 250}.{number % 250 + 1}" for number in range(most)]
        self._known: set[str] = set()
        self._pages: dict[str, MetricsPage] = {}
        self._configs: dict[str, Any] = {}
        self._draw = random.Random(0)
        self._server = grpc.aio.server()
        app = web.Application()
        app.add_routes([web.get("/metrics", self._metrics)])
        self._runner = web.AppRunner(app, access_log=None)

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802 - Triton's name
        """Triton's `ModelConfig`: what the repository of the pod says."""
        config = await self._config(request.name, context)
        return service_pb2.ModelConfigResponse(config=config)

    async def _config(self, name: str, context: Any) -> Any:
        if name not in self._configs:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{name}' is not found")
        return self._configs[name]

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802 - Triton's name
        """Triton's `ModelInfer` of an engine, which answers control requests: the slots that it was rendered with."""
        config = await self._config(request.model_name, context)
        slots = {"slots": {"standin": int(config.parameters[SLOTS].string_value)}}
        answer = service_pb2.ModelInferResponse(model_name=request.model_name)
        answer.outputs.add(name=CONTROL_TENSOR, datatype="BYTES", shape=[1])
        answer.raw_output_contents.append(serialize_byte_tensor(np.array([json.dumps(slots).encode()])).item())
        return answer

    async def _metrics(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        page = self._pages[request.transport.get_extra_info("sockname")[0]]
        if self.loaded:
            page.under_load(self._draw)
        return web.Response(text=page.text())

    async def start(self) -> None:
        """Serves both endpoints of every address there will be."""
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, self._server)
        await self._runner.setup()
        for address in self._free:
            self._server.add_insecure_port(f"{address}:{GRPC_PORT}")
            await web.TCPSite(self._runner, address, METRICS_PORT).start()
        await self._server.start()

    async def stop(self) -> None:
        """Ends serving."""
        await self._runner.cleanup()
        await self._server.stop(None)

    async def play_kubelet(self) -> None:
        """Makes every pod ready that is not, until cancelled. The API server's hiccups are waited out."""
        while True:
            try:
                for namespace in self._namespaces:
                    for pod in await self._client.list(resources.POD, namespace):
                        await self._make_ready(pod)
            except KubeError as error:
                print(f"the stand-in kubelet waits: {error}")
            await asyncio.sleep(PERIOD)

    async def _make_ready(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp") or metadata["uid"] in self._known:
            return
        labels = metadata["labels"]
        name = revision_name(labels[INSTANCE_LABEL], labels[REVISION_LABEL])
        stored = await self._client.get(resources.CONFIG_MAP, metadata["namespace"], name)
        assert stored is not None, f"pod {metadata['name']} has no repository"
        repository = Repository.from_config_map_data(stored["data"])
        roles = [model.role for model in repository.models]
        self._configs |= {config.name: config for config in map(repository.config, roles)}
        address = self._free.pop()
        self._pages[address] = MetricsPage(labels[INSTANCE_LABEL])
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": ready_status(pod, address)}
        await self._client.apply_status(manifest, field_manager=KUBELET)
        self._known.add(metadata["uid"])


def ready_status(pod: Manifest, address: str) -> Manifest:
    """The status of a pod whose containers all run."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kinds = ("Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


@asynccontextmanager
async def standin_replicas(client: RealKube, *namespaces: str, most: int) -> AsyncIterator[Replicas]:
    """Stand-in replicas for every pod of the namespaces, `most` of them. When one fails, so does who uses them."""
    replicas = Replicas(client, namespaces, most)
    await replicas.start()
    try:
        async with asyncio.TaskGroup() as group:
            kubelet = group.create_task(replicas.play_kubelet())
            try:
                yield replicas
            finally:
                kubelet.cancel()
    finally:
        await replicas.stop()
