"""`spec.template`: the pod fields that a user may set. Everything else of the pod is the operator's."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from llmservice.api.schema import ApiModel

Key = Annotated[str, Field(max_length=317)]
Preserved = Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]


class Resources(ApiModel):
    """Requests and limits of the Triton container; accelerators are added by the operator."""

    requests: Annotated[dict[Key, Annotated[str, Field(max_length=32)]], Field(max_length=16)] = {}
    limits: Annotated[dict[Key, Annotated[str, Field(max_length=32)]], Field(max_length=16)] = {}


class EnvVar(ApiModel):
    """An environment variable of the Triton container."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    value: Annotated[str | None, Field(max_length=8192)] = None
    value_from: Preserved | None = None


class PullSecret(ApiModel):
    """A Secret with registry credentials."""

    name: Annotated[str, Field(min_length=1, max_length=253)]


class VolumeMount(ApiModel):
    """Where a volume of `volumes` appears in the Triton container."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    mount_path: Annotated[str, Field(min_length=2, max_length=512, pattern=r"^/")]
    sub_path: Annotated[str | None, Field(max_length=512)] = None
    read_only: bool = True


class PodTemplate(ApiModel):
    """Allow-listed pod fields."""

    labels: Annotated[dict[Key, Annotated[str, Field(max_length=63)]], Field(max_length=32)] = {}
    annotations: Annotated[dict[Key, Annotated[str, Field(max_length=8192)]], Field(max_length=32)] = {}
    resources: Resources = Resources()
    env: Annotated[list[EnvVar], Field(max_length=64)] = []
    tolerations: Annotated[list[Preserved], Field(max_length=32)] = []
    image_pull_secrets: Annotated[list[PullSecret], Field(max_length=8)] = []
    volumes: Annotated[list[Preserved], Field(max_length=32)] = []
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] = []
    priority_class_name: Annotated[str | None, Field(max_length=253)] = None
