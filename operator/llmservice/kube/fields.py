"""Field paths of a manifest in the notation of `metadata.managedFields` (`FieldsV1`), and values at those paths.

A step is `f:<name>` for a field, `k:<keys as JSON>` for an item of a list that is a map, `v:<value as JSON>` for a
member of a set. Source: sigs.k8s.io/structured-merge-diff, `fieldpath`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from llmservice.kube.lists import Names, has_keys, is_atomic_map, is_set, key_of, map_keys

Path = tuple[str, ...]


def paths_of(value: Any, at: Path = (), names: Names = ()) -> Iterator[Path]:
    """Every field that a manifest says something about: its leaves, and the items of its list-maps themselves."""
    if isinstance(value, dict) and value and not is_atomic_map(names):
        for name, child in value.items():
            yield from paths_of(child, (*at, f"f:{name}"), (*names, name))
        return
    if isinstance(value, list) and value:
        keys = map_keys(names)
        if keys is not None and has_keys(value, keys):
            for item in value:
                here = (*at, _key_step(item, keys))
                yield here
                yield from paths_of(item, here, names)
            return
        if is_set(names):
            for member in value:
                yield (*at, _value_step(member))
            return
    if at:
        yield at


def is_item(path: Path) -> bool:
    """Whether the path names an item of a list, not a field."""
    return not path[-1].startswith("f:")


def value_at(value: Any, path: Path) -> Any:
    """The value at a path; raises KeyError when it is not there."""
    for step in path:
        value = _child(value, step)
    return value


def remove(value: Any, path: Path) -> None:
    """Take the field or item at `path` out, and every map and list that is empty because of it."""
    parents = [value]
    try:
        for step in path:
            parents.append(_child(parents[-1], step))
    except KeyError:
        return
    for depth in range(len(path), 0, -1):
        parent, child, step = parents[depth - 1], parents[depth], path[depth - 1]
        if depth < len(path) and child:
            return
        if isinstance(parent, dict):
            del parent[step.removeprefix("f:")]
        else:
            parent.remove(child)


def merge(live: Any, applied: Any, names: Names = ()) -> Any:
    """`applied` laid over `live`: maps and list-maps field by field, everything else replaced."""
    if isinstance(live, dict) and isinstance(applied, dict) and not is_atomic_map(names):
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = merge(live.get(name), value, (*names, name))
        return merged
    if isinstance(live, list) and isinstance(applied, list):
        keys = map_keys(names)
        if keys is not None and has_keys(live, keys) and has_keys(applied, keys):
            return _merge_items(live, applied, keys, names)
        if is_set(names):
            return [*live, *(member for member in applied if member not in live)]
    return applied


def fields_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """The paths as the tree that `managedFields[].fieldsV1` holds."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        if is_item(path) and path[-1].startswith("k:"):
            node["."] = {}
    return tree


def dotted(path: Path) -> str:
    """A path for people: `.spec.template.spec.containers[name="triton"].image`."""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"
        else:
            text += f"[={rest}]"
    return text


def _key_step(item: dict[str, Any], keys: Names) -> str:
    pairs = dict(zip(keys, key_of(item, keys), strict=True))
    return "k:" + json.dumps(pairs, sort_keys=True, separators=(",", ":"))


def _value_step(member: Any) -> str:
    return "v:" + json.dumps(member, sort_keys=True, separators=(",", ":"))


def _child(value: Any, step: str) -> Any:
    kind, _, rest = step.partition(":")
    if kind == "f" and isinstance(value, dict):
        return value[rest]
    if kind == "k" and isinstance(value, list):
        wanted = json.loads(rest)
        keys = tuple(wanted)
        for item in value:
            if isinstance(item, dict) and key_of(item, keys) == tuple(wanted.values()):
                return item
    if kind == "v" and isinstance(value, list):
        member = json.loads(rest)
        if member in value:
            return member
    raise KeyError(step)


def _merge_items(live: list[Any], applied: list[Any], keys: Names, names: Names) -> list[Any]:
    """Items by key. The order of `applied` leads; what only the live list has keeps its place behind."""
    old = {key_of(item, keys): item for item in live}
    new = {key_of(item, keys): item for item in applied}
    merged = [merge(old[key], item, names) if key in old else item for key, item in new.items()]
    return [*merged, *(item for key, item in old.items() if key not in new)]
