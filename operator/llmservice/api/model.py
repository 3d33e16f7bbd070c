"""`spec.model`: which model, where its files come from, and under which names it is served."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from llmservice.api.schema import ApiModel

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
RelativePath = Annotated[str, Field(max_length=512)]


class Dtype(StrEnum):
    """The type of the weights while computing, in the words of torch and vLLM."""

    AUTO = "auto"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


class SecretKeyRef(ApiModel):
    """One key of a Secret in the service's namespace."""

    name: ObjectName
    key: Annotated[str, Field(min_length=1, max_length=253)]


class HuggingFaceSource(ApiModel):
    """A repository of a Hugging Face hub or of a mirror that speaks its protocol."""

    repo: Annotated[str, Field(min_length=1, max_length=256, description="Repository, as owner/name.")]
    revision: Annotated[str, Field(min_length=1, max_length=128, description="Commit (best), tag or branch.")] = "main"
    endpoint: Annotated[str | None, Field(max_length=512, description="Mirror endpoint, https://…")] = None
    token_secret_ref: SecretKeyRef | None = None


class PvcSource(ApiModel):
    """A folder of a PersistentVolumeClaim in the service's namespace, mounted read-only."""

    claim_name: ObjectName
    path: RelativePath = ""


class S3Source(ApiModel):
    """Objects below a prefix of an S3-compatible bucket."""

    bucket: Annotated[str, Field(min_length=3, max_length=63)]
    prefix: RelativePath = ""
    endpoint: Annotated[str | None, Field(max_length=512)] = None
    region: Annotated[str | None, Field(max_length=64)] = None
    credentials_secret: ObjectName | None = None


class OciSource(ApiModel):
    """An OCI image whose files are the model, mounted as an image volume."""

    reference: Annotated[str, Field(min_length=1, max_length=512)]
    path: RelativePath = ""


class HostPathSource(ApiModel):
    """A folder of the node, mounted read-only. For single nodes and nodes with a local model store."""

    path: Annotated[str, Field(min_length=2, max_length=512, pattern=r"^/")]


class PackageSource(ApiModel):
    """Model files that a Python package carries, found in the serving image or installed from its package index."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
    version: Annotated[str | None, Field(max_length=64)] = None
    file: Annotated[str, Field(max_length=256, description="Glob of the model file inside the package.")] = "*.gguf"


class ModelSource(ApiModel):
    """Where the model's files come from: exactly one."""

    hugging_face: HuggingFaceSource | None = None
    pvc: PvcSource | None = None
    s3: S3Source | None = None
    oci: OciSource | None = None
    host_path: HostPathSource | None = None
    package: PackageSource | None = None


class TokenizerSpec(ApiModel):
    """Overrides of what the model's own files say."""

    chat_template: Annotated[str | None, Field(max_length=32768, description="Jinja chat template.")] = None
    path: RelativePath | None = None


class ModelSpec(ApiModel):
    """The model that a service serves."""

    source: ModelSource
    served_names: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=128)]],
        Field(max_length=8, description="Names that clients may use. Omitted: the service's name."),
    ] = []
    max_length: Annotated[
        int | None,
        Field(ge=1, le=10_485_760, description="Longest prompt plus answer, in tokens. Omitted: what the model says."),
    ] = None
    dtype: Dtype = Dtype.AUTO
    tokenizer: TokenizerSpec | None = None
