"""Services of a namespace share a quota: what one has stays its own, the rest goes to the oldest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmservice.capacity.quota import Claimant, Share, share_of, too_many

pytestmark = pytest.mark.unit


def claimant(name: str, asked: int, held: int = 0, created: str = "2026-01-01T00:00:00Z") -> Claimant:
    return Claimant(name, created, asked, held)


def test_a_service_alone_may_have_it_all() -> None:
    assert share_of("a", [claimant("a", 2)], 8) == Share(8, 8)


def test_the_oldest_comes_first() -> None:
    two = [claimant("b", 6, created="2026-01-01T00:00:00Z"), claimant("a", 4, created="2026-01-02T00:00:00Z")]
    assert share_of("b", two, 8).allowed == 8
    assert share_of("a", two, 8).allowed == 2


def test_what_a_younger_service_has_an_older_one_does_not_get() -> None:
    two = [claimant("old", 6, 2, "2026-01-01T00:00:00Z"), claimant("young", 4, 4, "2026-01-02T00:00:00Z")]
    assert share_of("old", two, 8).allowed == 4
    assert share_of("young", two, 8).allowed == 6


def test_one_that_asks_for_too_much_holds_up_nobody() -> None:
    two = [claimant("big", 16, created="2026-01-01T00:00:00Z"), claimant("small", 8, created="2026-01-02T00:00:00Z")]
    assert share_of("small", two, 8).allowed == 8
    assert share_of("big", two, 8).allowed == 0


def test_a_smaller_quota_takes_nothing_away() -> None:
    two = [claimant("a", 4, 4), claimant("b", 4, 4)]
    assert [share_of(name, two, 6).allowed for name in "ab"] == [4, 4]


def test_the_refusal_names_who_has_what() -> None:
    share = Share(8, 1, (("chat", 4), ("code", 3)))
    said = too_many(share, 4, "team-a", "a100-80gb")
    assert said.startswith(
        "namespace team-a may take 8 accelerators of pool a100-80gb, 7 of them are taken (4 by chat, 3 by code), and "
        "this service asks for 4: 1 are left for it."
    )
    assert too_many(share, 1, "team-a", "a100-80gb") == ""
    assert "none of them is taken" in too_many(Share(2, 2), 4, "a", "b")
    assert "6 by 2 more" in too_many(Share(9, 0, tuple((f"s{n}", 3) for n in range(7))), 1, "a", "b")


@given(
    asked=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=8),
    quota=st.integers(0, 40),
)
def test_what_is_granted_never_exceeds_the_quota_nor_what_is_held(
    asked: list[tuple[int, int, int]], quota: int
) -> None:
    everyone = [claimant(f"s{n}", wants, has, f"2026-01-0{day + 1}") for n, (wants, has, day) in enumerate(asked)]
    held = sum(one.held for one in everyone)
    granted = sum(max(one.held, min(one.asked, share_of(one.name, everyone, quota).allowed)) for one in everyone)
    refused = [one for one in everyone if one.asked > share_of(one.name, everyone, quota).allowed]
    settled = sum(one.held if one in refused else max(one.held, one.asked) for one in everyone)
    assert settled <= max(quota, held)
    assert granted >= held
