"""Which lists of Kubernetes objects are maps or sets in disguise, and which maps are replaced as a whole.

Source: the `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type` of the API server's own
OpenAPI. What is not named here is an atomic list or a granular map, which is also their default. Paths are field
names from the top of the manifest, without list positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Names = tuple[str, ...]

DEFAULT_PROTOCOL: Final = "TCP"

_MAP_KEYS: Final[dict[str, Names]] = {
    "claims": ("name",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "resourceClaims": ("name",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_SETS: Final = frozenset({"finalizers"})
_ATOMIC_MAPS: Final = frozenset(
    {
        "configMapKeyRef",
        "fieldRef",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "podSelector",
        "resourceFieldRef",
        "secretKeyRef",
        "secretRef",
        "selector",
    }
)


def map_keys(names: Names) -> Names | None:
    """The fields that tell the items of the list at `names` apart, or None for an atomic list or a set."""
    if not names:
        return None
    if names[-1] == "ports":
        if names[-2:-1] in (("containers",), ("initContainers",)):
            return ("containerPort", "protocol")
        return ("port", "protocol") if names == ("spec", "ports") else None
    return _MAP_KEYS.get(names[-1])


def is_set(names: Names) -> bool:
    """Whether the list at `names` is a set of values."""
    return bool(names) and names[-1] in _SETS


def is_atomic_map(names: Names) -> bool:
    """Whether the map at `names` has one owner as a whole."""
    return bool(names) and names[-1] in _ATOMIC_MAPS


def key_of(item: Mapping[str, Any], keys: Names) -> tuple[Any, ...]:
    """The values of `keys` in a list item, a port's protocol by default TCP as the API server fills it in."""
    return tuple(item.get(key, DEFAULT_PROTOCOL if key == "protocol" else None) for key in keys)


def has_keys(items: list[Any], keys: Names) -> bool:
    """Whether every item is an object with its own key: what the API server asks of a list that is a map."""
    if not all(isinstance(item, dict) for item in items):
        return False
    found = [key_of(item, keys) for item in items]
    return all(isinstance(value, str | int) for key in found for value in key) and len(set(found)) == len(found)
