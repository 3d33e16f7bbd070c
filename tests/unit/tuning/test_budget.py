"""All services of one operator share a budget of reloads: bounded, fair, and told."""

from __future__ import annotations

import pytest

from llmservice.tuning.budget import A_SERVICE, AN_HOUR, PATIENCE, Claim, spent, turn_of
from llmservice.tuning.decision import Knob
from llmservice.tuning.guard import HOUR, Change
from llmservice.tuning.measured import Turn
from tests.unit.tuning.windows import Service, knobs

pytestmark = pytest.mark.unit

CHAT, CODE, MAIL = ("a", "chat"), ("a", "code"), ("b", "mail")
NOW = 10_000.0


def test_what_counts_is_reloads_and_instances_of_the_last_hour() -> None:
    changes = [
        Change(at=NOW - HOUR - 1, knob=Knob.DELAY, old=0, new=1),
        Change(at=NOW - 10, knob=Knob.INSTANCES, old=1, new=2),
        Change(at=NOW - 20, knob=Knob.DELAY, old=0, new=1),
        Change(at=NOW - 5, knob=Knob.REPLICAS, old=1, new=2),
        Change(at=NOW - 5, knob=Knob.SLOTS, old=1, new=2),
        Change(at=NOW + 60, knob=Knob.DELAY, old=1, new=2),
    ]
    assert spent(changes, NOW) == (NOW - 20, NOW - 10)


def test_while_there_is_some_left_it_is_everybody_s_turn() -> None:
    made = {CHAT: (NOW - 60,), CODE: (NOW - 50, NOW - 40), MAIL: ()}
    assert {turn_of(one, made, {}, NOW) for one in made} == {Turn()}


def test_what_is_used_up_comes_back_an_hour_after_the_oldest() -> None:
    made = {CHAT: (NOW - 600, NOW - 500), CODE: (NOW - 400, NOW - 300), MAIL: (NOW - 200, NOW - 100)}
    turn = turn_of(CHAT, made, {}, NOW)
    assert turn.free_at == NOW - 600 + HOUR
    assert turn.reason == f"all services together had {AN_HOUR} of {AN_HOUR} changes within the hour"


def test_one_service_has_at_most_half_while_there_are_others() -> None:
    own = tuple(NOW - 100.0 * number for number in range(A_SERVICE, 0, -1))
    assert turn_of(CHAT, {CHAT: own}, {}, NOW) == Turn()
    turn = turn_of(CHAT, {CHAT: own, CODE: ()}, {}, NOW)
    assert turn.free_at == own[0] + HOUR
    assert "other services share" in turn.reason


def test_the_last_one_goes_to_whoever_had_fewer_then_to_whoever_waits_longer() -> None:
    made = {CHAT: (NOW - 500, NOW - 400), CODE: (NOW - 300,), MAIL: (NOW - 200, NOW - 100)}
    claims = {CODE: Claim(NOW - 30, NOW - 30)}
    assert turn_of(CODE, made, claims, NOW) == Turn()
    waits = turn_of(CHAT, made, claims, NOW)
    assert waits.free_at == NOW - 500 + HOUR
    assert "1 waits that had fewer or asked before" in waits.reason
    longer = {CHAT: Claim(NOW - 90, NOW - 30), MAIL: Claim(NOW - 60, NOW - 30)}
    assert turn_of(CHAT, made, longer, NOW) == Turn()
    assert turn_of(MAIL, made, longer, NOW) != Turn()


def test_who_no_longer_asks_holds_up_nobody() -> None:
    made = {CHAT: (NOW - 500, NOW - 400), CODE: (NOW - 300, NOW - 250), MAIL: (NOW - 200,)}
    claims = {CODE: Claim(NOW - 900, NOW - PATIENCE - 1), ("gone", "gone"): Claim(NOW - 900, NOW - 900)}
    assert turn_of(CHAT, made, claims, NOW) == Turn()


def test_however_many_ask_no_hour_has_more_changes_than_there_are_and_none_starves() -> None:
    keys = [("ns", f"service-{number}") for number in range(20)]
    made: dict[tuple[str, str], tuple[float, ...]] = dict.fromkeys(keys, ())
    claims: dict[tuple[str, str], Claim] = {}
    taken: list[tuple[str, str]] = []
    for window in range(4 * 120):
        now = NOW + 30.0 * window
        for key in keys:
            made[key] = tuple(at for at in made[key] if now - HOUR < at)
            if turn_of(key, made, claims, now).free_at <= now:
                claims.pop(key, None)
                made[key] = (*made[key], now)
                taken.append(key)
            else:
                claims[key] = Claim(claims[key].since if key in claims else now, now)
        assert sum(len(times) for times in made.values()) <= AN_HOUR
    assert len(taken) == 4 * AN_HOUR
    assert set(taken) == set(keys)


def test_a_change_waits_for_its_turn_and_says_so_and_what_is_undone_does_not() -> None:
    service = Service(knobs=knobs(1))
    for _ in range(60):
        waiting = service.serve(240.0, turn=Turn(service.now + 900.0, "all services together had 6 of 6 changes"))
    assert service.moves == []
    assert waiting.claims
    assert waiting.reason.endswith("but all services together had 6 of 6 changes.")
    assert waiting.next_action_at is not None
    acted = service.serve(240.0)
    assert [one.knob for one in acted.actions] == [Knob.DELAY]
    assert not acted.claims
