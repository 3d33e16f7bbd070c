"""`spec.template`: the pod fields that a user may set. Everything else of the pod is the operator's."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from llmservice.api.quantity import parse_quantity
from llmservice.api.schema import ApiModel, Rule, with_rules

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
OWNED_PATHS: Final = ("/repository", "/models", "/rendered", "/source", "/cache", "/dev/shm", "/tmp")  # noqa: S108 - the pod's
"""Folders of the pod that are the operator's."""
_OWNED_LABELS = "['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/managed-by']"

_KEY = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_LABEL_VALUE = "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
"""Qualified names and label values, as Kubernetes' apimachinery validates them (pkg/util/validation)."""

Key = Annotated[str, Field(max_length=317)]
Preserved = Annotated[dict[str, Any], WithJsonSchema({"type": "object", _PRESERVE: True})]


def _require_name(volume: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(volume.get("name"), str):
        raise ValueError("this volume has no name: write name, as a volume mount names it")
    return volume


NamedVolume = Annotated[
    dict[str, Any],
    AfterValidator(_require_name),
    WithJsonSchema(
        {
            "type": "object",
            _PRESERVE: True,
            "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 63, "description": "The volume's name."}},
        }
    ),
]


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


QUANTITY_RULE = Rule(
    code="own-quantity",
    expression="type(self) == int || isQuantity(self)",
    message='"%s is not a quantity: write a number, with a unit where it has one, such as 2, 500m or 4Gi"'
    ".format([self])",
)
Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema(with_rules({"x-kubernetes-int-or-string": True, "maxLength": 32}, QUANTITY_RULE)),
]
Quantities = Annotated[dict[Key, Quantity], Field(max_length=8)]


_ABOVE: Final = (
    "k in self.limits && isQuantity(string(self.requests[k])) && isQuantity(string(self.limits[k])) "
    "&& quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) > 0"
)


class Resources(ApiModel):
    """Requests and limits of the Triton container; accelerators are added by the operator."""

    requests: Annotated[Quantities, Field(description="What a node must have free.")] = {}
    limits: Annotated[Quantities, Field(description="What the container may take at most.")] = {}

    rules = (
        *(
            Rule(
                code=f"own-accelerator-{field}",
                expression=f"!has(self.{field}) || self.{field}.all(k, !k.startsWith('nvidia.com/'))",
                message='"accelerators follow from placement.pool and engine.parallelism: remove nvidia.com/ from '
                'here"',
                field_path=f".{field}",
            )
            for field in ("requests", "limits")
        ),
        Rule(
            code="own-request-above-limit",
            expression=f"!has(self.requests) || !has(self.limits) || self.requests.all(k, !({_ABOVE}))",
            message='"the request of %s is more than its limit: raise limits, or lower requests"'
            f".format([self.requests.filter(k, {_ABOVE})[0]])",
            field_path=".requests",
        ),
    )

    def above_limit(self) -> str | None:
        """The first resource whose request is more than its limit, which Kubernetes refuses; None where all fit."""
        for name, text in self.requests.items():
            request, limit = parse_quantity(text), parse_quantity(self.limits.get(name, ""))
            if request is not None and limit is not None and request > limit:
                return name
        return None


class EnvVar(ApiModel):
    """An environment variable of the Triton container."""

    name: Annotated[str, Field(min_length=1, max_length=128, description="The variable's name.")]
    value: Annotated[str | None, Field(max_length=8192, description="Its value.")] = None
    value_from: Annotated[Preserved | None, Field(description="Where its value comes from, in Kubernetes' form.")] = (
        None
    )

    rules = (
        Rule(
            code="own-env-name",
            expression="self.name.matches('^[A-Za-z_][A-Za-z0-9_]*$')",
            message='"%s cannot name a variable: use letters, digits and _, with no digit first".format([self.name])',
            field_path=".name",
        ),
        Rule(
            code="own-env-owned",
            expression="!(self.name in ['TRITON_TOKEN', 'HOME', 'PYTHONDONTWRITEBYTECODE'])",
            message='"the operator sets %s itself: remove it".format([self.name])',
            field_path=".name",
        ),
        Rule(
            code="own-env-value",
            expression="!(has(self.value) && has(self.valueFrom))",
            message='"a variable has value or valueFrom, not both: remove one"',
        ),
    )


class PullSecret(ApiModel):
    """A Secret with registry credentials."""

    name: Annotated[str, Field(min_length=1, max_length=253, description="The Secret's name.")]


class VolumeMount(ApiModel):
    """Where a volume of `volumes` appears in the Triton container."""

    name: Annotated[str, Field(min_length=1, max_length=63, description="Name of an entry of volumes.")]
    mount_path: Annotated[str, Field(min_length=1, max_length=512, description="Absolute path in the container.")]
    sub_path: Annotated[str | None, Field(max_length=512, description="Folder inside the volume.")] = None
    read_only: Annotated[bool, Field(description="Whether the container may only read.")] = True

    rules = (
        Rule(
            code="own-mount-path",
            expression="self.mountPath.startsWith('/') && self.mountPath != '/' "
            f"&& {list(OWNED_PATHS)}.all(p, self.mountPath != p && !self.mountPath.startsWith(p + '/'))",
            message=f'"%s cannot be mounted over: write an absolute path outside {", ".join(OWNED_PATHS)}"'
            ".format([self.mountPath])",
            field_path=".mountPath",
        ),
    )


class PodTemplate(ApiModel):
    """Allow-listed pod fields."""

    labels: Annotated[
        dict[Key, Annotated[str, Field(max_length=63)]], Field(max_length=32, description="Further labels of the pods.")
    ] = {}
    annotations: Annotated[
        dict[Key, Annotated[str, Field(max_length=8192)]],
        Field(max_length=32, description="Further annotations of the pods."),
    ] = {}
    resources: Resources = Resources()
    env: Annotated[list[EnvVar], Field(max_length=64, description="Variables of the Triton container.")] = []
    tolerations: Annotated[list[Preserved], Field(max_length=32, description="Tolerations, in Kubernetes' form.")] = []
    image_pull_secrets: Annotated[
        list[PullSecret], Field(max_length=8, description="Secrets with registry credentials.")
    ] = []
    volumes: Annotated[list[NamedVolume], Field(max_length=32, description="Volumes, in Kubernetes' form.")] = []
    volume_mounts: Annotated[
        list[VolumeMount], Field(max_length=32, description="Where volumes appear in the Triton container.")
    ] = []
    priority_class_name: Annotated[str | None, Field(max_length=253, description="The pods' PriorityClass.")] = None

    rules = (
        Rule(
            code="own-template-labels",
            expression=f"!has(self.labels) || self.labels.all(k, !(k in {_OWNED_LABELS}) "
            "&& !k.startsWith('triton-llm.dev/'))",
            message='"the operator finds its pods by these labels: remove triton-llm.dev/… and the '
            'app.kubernetes.io labels name, instance and managed-by"',
            field_path=".labels",
        ),
        Rule(
            code="own-label-values",
            expression=f"!has(self.labels) || self.labels.all(k, k.matches('{_KEY}') "
            f"&& self.labels[k].matches('{_LABEL_VALUE}'))",
            message='"Kubernetes takes no such label: write letters, digits, - _ and ., at most 63, with a letter or '
            'digit at both ends"',
            field_path=".labels",
        ),
        Rule(
            code="own-annotation-keys",
            expression=f"!has(self.annotations) || self.annotations.all(k, k.matches('{_KEY}') "
            "&& !k.startsWith('triton-llm.dev/'))",
            message='"no such annotation: write a name of letters, digits, - _ and ., if need be behind a domain and '
            "/; triton-llm.dev/… is the operator's own\"",
            field_path=".annotations",
        ),
        Rule(
            code="own-mount-volume",
            expression="!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) "
            "&& self.volumes.exists(v, v.name == m.name))",
            message='"a volume mount names no volume: write an entry of the same name into template.volumes"',
            field_path=".volumeMounts",
        ),
        Rule(
            code="own-env-once",
            expression="!has(self.env) || self.env.all(a, self.env.exists_one(b, b.name == a.name))",
            message='"each environment variable may appear once: remove the duplicate"',
            field_path=".env",
        ),
    )
