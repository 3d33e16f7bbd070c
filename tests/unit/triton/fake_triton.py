# ruff: noqa: N802 - the methods have the names of the protocol
"""The part of Triton that the operator calls, in memory, behind a real gRPC server on 127.0.0.1.

It does what was measured on tritonserver 2.51: fills in fields, keeps the old model after a failed load, changes a
count in place and loads anything else again. The flags make it misbehave.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import json_format
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from llmservice.repository.proto import ModelConfig
from llmservice.triton.client import TOKEN_HEADER
from llmservice.triton.comparison import submitted_form

TOKEN = "secret"


@dataclass
class Loaded:
    config: Any
    requests: int = 0
    ready: bool = True
    loads: int = 1


@dataclass
class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    models: dict[str, Loaded] = field(default_factory=dict)
    load_calls: list[str] = field(default_factory=list)
    refuse_load: str = ""
    ignore_load: bool = False
    always_reload: bool = False
    unready_after_load: bool = False
    slots: dict[str, int] = field(default_factory=lambda: {"1-aa": 18})
    deaf: bool = False

    def put(self, config: Any) -> Loaded:
        self.models[config.name] = Loaded(filled_in(config))
        return self.models[config.name]

    async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:
        await self._guard(context)
        self.load_calls.append(request.model_name)
        if self.refuse_load:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse_load)
        config = json_format.Parse(request.parameters["config"].string_param, ModelConfig())
        if not self.ignore_load:
            self._load(config)
        return service_pb2.RepositoryModelLoadResponse()

    def _load(self, config: Any) -> None:
        old = self.models.get(config.name)
        if old and not self.always_reload and without_instances(old.config) == without_instances(config):
            old.config = filled_in(config)
        else:
            self.models[config.name] = Loaded(filled_in(config), loads=1 + (old.loads if old else 0))
        self.models[config.name].ready = not self.unready_after_load

    async def RepositoryModelUnload(self, request: Any, context: Any) -> Any:
        await self._guard(context)
        del self.models[request.model_name]
        return service_pb2.RepositoryModelUnloadResponse()

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        asked = json.loads(request.raw_input_contents[0][4:])
        if asked.pop("token") != TOKEN:
            await context.abort(grpc.StatusCode.INTERNAL, "control: the token is not this server's")
        if "slots" in asked and not self.deaf:
            self.slots = dict.fromkeys(self.slots, asked["slots"])
        response = service_pb2.ModelInferResponse(model_name=request.model_name)
        response.outputs.add(name="control", datatype="BYTES", shape=[1])
        told = json.dumps({"slots": self.slots}).encode()
        response.raw_output_contents.append(struct.pack("<I", len(told)) + told)
        return response

    async def ModelConfig(self, request: Any, context: Any) -> Any:
        await self._guard(context)
        if request.name not in self.models:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.name}' is not found")
        return service_pb2.ModelConfigResponse(config=self.models[request.name].config)

    async def ModelStatistics(self, request: Any, context: Any) -> Any:
        await self._guard(context)
        response = service_pb2.ModelStatisticsResponse()
        if request.name in self.models:
            count = self.models[request.name].requests
            stats = response.model_stats.add(name=request.name, version="1", inference_count=count)
            stats.inference_stats.success.count = count
            stats.batch_stats.add(batch_size=4).compute_infer.ns = 12
        return response

    async def ModelReady(self, request: Any, context: Any) -> Any:
        if request.name not in self.models:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"Request for unknown model: '{request.name}'")
        return service_pb2.ModelReadyResponse(ready=self.models[request.name].ready)

    async def ServerReady(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerReadyResponse(ready=True)

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerMetadataResponse(name="triton", version="2.51.0")

    async def RepositoryIndex(self, request: Any, context: Any) -> Any:
        await self._guard(context)
        response = service_pb2.RepositoryIndexResponse()
        for name in sorted(self.models):
            response.models.add(name=name, version="1", state="READY")
        response.models.add(name="never-loaded")
        return response

    async def _guard(self, context: Any) -> None:
        if dict(context.invocation_metadata()).get(TOKEN_HEADER) != TOKEN:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"This protocol is restricted, expecting '{TOKEN_HEADER}'")


def filled_in(config: Any) -> Any:
    """`config` as Triton answers it: with what it adds."""
    copy = ModelConfig()
    copy.CopyFrom(config)
    copy.version_policy.latest.num_versions = 1
    copy.default_model_filename = "model.py"
    copy.optimization.input_pinned_memory.enable = True
    for index, group in enumerate(copy.instance_group):
        group.name = f"{config.name}_{index}"
    if copy.HasField("dynamic_batching") and not copy.dynamic_batching.preferred_batch_size:
        copy.dynamic_batching.preferred_batch_size.append(copy.max_batch_size)
    return copy


def without_instances(config: Any) -> Any:
    copy = submitted_form(config)
    copy.ClearField("instance_group")
    return copy
