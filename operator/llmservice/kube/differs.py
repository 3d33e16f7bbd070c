"""Whether a desired manifest needs to be applied at all. A world that is as it should be is not written to.

The API server changes what it stores: it fills in defaults, turns numbers into strings, drops what is empty. So the
desired manifest is compared field by field with what is live, each field by Kubernetes' own idea of equality. What
the comparison cannot see, a field that the desired manifest no longer has, is seen by its hash in an annotation.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any, Final

from llmservice.api.quantity import parse_quantity
from llmservice.kube.lists import Names, has_keys, is_set, key_of, map_keys
from llmservice.kube.resources import Manifest

APPLIED_ANNOTATION: Final = "triton-llm.dev/applied"

_QUANTITY_MAPS: Final = frozenset({"capacity", "hard", "limits", "overhead", "requests"})
_QUANTITIES: Final = frozenset(
    {("emptyDir", "sizeLimit"), ("resourceFieldRef", "divisor"), ("target", "averageValue"), ("target", "value")}
)
_PRESENCE_MATTERS: Final = frozenset({("emptyDir",)})
"""Fields that say something by being there, empty: a volume that is no longer an emptyDir is something else."""


def stamp(desired: Manifest) -> Manifest:
    """The manifest with the hash of itself in the annotation `triton-llm.dev/applied`; the input is left alone."""
    stamped = copy.deepcopy(desired)
    annotations = stamped.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.pop(APPLIED_ANNOTATION, None)
    annotations[APPLIED_ANNOTATION] = _hash(desired)
    return stamped


def needs_apply(desired: Manifest, live: Manifest | None) -> bool:
    """Whether `desired`, stamped or not, must be applied: something it says is not so, or it no longer says something.

    `live` is what the API server returned, None when nothing is there.
    """
    if live is None:
        return True
    recorded = (live["metadata"].get("annotations") or {}).get(APPLIED_ANNOTATION)
    return recorded != _hash(desired) or bool(differing(desired, live))


def differing(desired: Manifest, live: Manifest) -> list[str]:
    """The paths at which the live object is not what `desired` says, for logs: `spec.replicas`."""
    return _Comparison().run(_without_stamp(desired), live)


def _hash(desired: Manifest) -> str:
    """Sixteen hex digits over what the manifest says, whatever the order of its keys and without the stamp."""
    text = json.dumps(_without_stamp(desired), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_stamp(desired: Manifest) -> Manifest:
    metadata = dict(desired["metadata"])
    annotations = {k: v for k, v in (metadata.pop("annotations", None) or {}).items() if k != APPLIED_ANNOTATION}
    return {**desired, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


class _Comparison:
    """One walk over both objects, collecting where they differ."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def run(self, desired: Any, live: Any) -> list[str]:
        self._compare(desired, live, (), "")
        return self.found

    def _compare(self, desired: Any, live: Any, names: Names, path: str) -> None:
        if desired is None:
            return
        if isinstance(desired, dict) and desired and isinstance(live, dict | None):
            self._compare_map(desired, live or {}, names, path)
        elif isinstance(desired, list) and desired and isinstance(live, list | None):
            self._compare_list(desired, live or [], names, path)
        elif not equal(desired, live, names):
            self.found.append(path)

    def _compare_map(self, desired: Manifest, live: Manifest, names: Names, path: str) -> None:
        for name, value in desired.items():
            self._compare(value, live.get(name), (*names, name), f"{path}.{name}".removeprefix("."))

    def _compare_list(self, desired: list[Any], live: list[Any], names: Names, path: str) -> None:
        keys = map_keys(names)
        if is_set(names):
            self.found += [f"{path}[{member}]" for member in desired if member not in live]
        elif keys is not None and has_keys(desired, keys) and has_keys(live, keys):
            there = {key_of(item, keys): item for item in live}
            for item in desired:
                key = key_of(item, keys)
                here = f"{path}[{'/'.join(map(str, key))}]"
                if key in there:
                    self._compare(item, there[key], names, here)
                else:
                    self.found.append(here)
        elif len(desired) != len(live):
            self.found.append(path)
        else:
            for index, (wanted, found) in enumerate(zip(desired, live, strict=True)):
                self._compare(wanted, found, names, f"{path}[{index}]")


def equal(desired: Any, live: Any, names: Names) -> bool:
    """Whether two leaves mean the same: quantities by value, and what the API server drops because it is empty.

    A number and its text stay different: in an int-or-string field `80` is a port and `"80"` the name of one, and
    the API server keeps which of them it was given.
    """
    if desired == live:
        return isinstance(desired, bool) == isinstance(live, bool)
    if live is None or live in ("", {}, []):
        return not desired and names[-1:] not in _PRESENCE_MATTERS
    if _is_quantity(names):
        wanted = parse_quantity(desired)
        return wanted is not None and wanted == parse_quantity(live)
    return False


def _is_quantity(names: Names) -> bool:
    return names[:1] == ("spec",) and (names[-2:] in _QUANTITIES or bool(_QUANTITY_MAPS.intersection(names[-2:-1])))
