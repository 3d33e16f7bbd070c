"""The version of Triton in an image decides what may be rendered for it."""

from __future__ import annotations

import pytest

from llmservice.repository.errors import UnknownTritonVersionError
from llmservice.repository.features import (
    FEATURE_TABLE,
    OLDEST_GATE_VERSION,
    OLDEST_VERSION,
    TritonFeatures,
    feature_names,
)

pytestmark = pytest.mark.unit


def test_2_51_cancels_but_has_neither_readiness_hook_nor_shared_memory_flag() -> None:
    features = TritonFeatures.for_version("2.51.0")
    assert features.decoupled_cancellation
    assert not features.is_ready_hook
    assert not features.allow_client_shm


def test_2_71_has_all() -> None:
    assert all(getattr(TritonFeatures.for_version("2.71.0"), name) for name in feature_names())


@pytest.mark.parametrize(
    ("asked", "answers"),
    [("2.51.0", "2.51.0"), ("2.53.1", "2.51.0"), ("2.68.0", "2.67.0"), ("2.73.0dev", "2.71.0"), ("3.0.0", "2.71.0")],
)
def test_an_unknown_version_is_answered_by_the_nearest_older_one(asked: str, answers: str) -> None:
    assert TritonFeatures.for_version(asked).version == answers


def test_a_version_below_all_known_ones_is_refused_with_what_to_use() -> None:
    with pytest.raises(UnknownTritonVersionError, match=r"2\.48\.0 is older than 2\.49\.0.*use an image"):
        TritonFeatures.for_version("2.48.0")


@pytest.mark.parametrize("text", ["", "latest", "2", "26.07", "24.10-py3", "2.51.0.1"])
def test_text_that_is_no_server_version_is_refused(text: str) -> None:
    with pytest.raises(UnknownTritonVersionError, match=r"server.* version"):
        TritonFeatures.for_version(text)


def test_the_table_is_ascending_and_names_only_known_features() -> None:
    versions = [tuple(map(int, version.split("."))) for version in FEATURE_TABLE]
    assert versions == sorted(versions)
    assert (OLDEST_VERSION, OLDEST_GATE_VERSION) == ("2.49.0", "2.51.0")
    assert {feature for row in FEATURE_TABLE.values() for feature in row} == set(feature_names())
