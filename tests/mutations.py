"""Hypothesis strategies: manifests that are nearly right, as people and programs write them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from hypothesis import strategies as st

from tests.rule_cases import RULE_CASES, manifest

_ODD_VALUES: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5000),
    st.sampled_from([0.5, "", "x", "5ms", "0s", "10", "1h", "Off", "Auto", "Static", "mig-1g.5gb", "a/b", "1Gi"]),
    st.just([]),
    st.just({}),
    st.just([1, 2]),
    st.just({"x": "y"}),
)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all values below `value`."""
    steps: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value))
    return [found for step, item in steps for found in ((*path, step), *_paths(item, (*path, step)))]


@st.composite
def nearly_right_manifests(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest of one or two rule cases, with up to two values replaced by odd ones or a field renamed."""
    case = draw(st.sampled_from(RULE_CASES))
    document = manifest(draw(st.sampled_from([case.accept, case.reject])))
    other = draw(st.sampled_from(RULE_CASES)).accept
    document["spec"] |= {key: value for key, value in deepcopy(other).items() if key not in document["spec"]}
    for _ in range(draw(st.integers(0, 2))):
        *parents, last = draw(st.sampled_from(_paths(document["spec"])))
        target = document["spec"]
        for step in parents:
            target = target[step]
        if isinstance(target, dict) and draw(st.integers(0, 9)) == 0:
            target[f"{last}s"] = target.pop(last)
        else:
            target[last] = deepcopy(draw(_ODD_VALUES))
    return document
