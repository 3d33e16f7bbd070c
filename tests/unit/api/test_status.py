from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from llmservice.api.bounds import format_time
from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.status import Condition, LLMServiceStatus, RevisionRef, RevisionStatus, SignalsStatus

pytestmark = pytest.mark.unit

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_what_is_not_known_is_left_out() -> None:
    assert LLMServiceStatus(signals=SignalsStatus(queue_depth=0)).manifest()["signals"] == {"queueDepth": 0}


def test_a_long_error_is_clipped_so_that_the_status_can_be_written() -> None:
    condition = Condition(type=ConditionType.READY, message="x" * 40_000, last_transition_time=NOON)
    assert len(condition.message) == 32_768
    assert condition.message.endswith("…")
    assert len(RevisionRef(name="1a2b3c4d", image="x" * 600).image) == 512


def test_long_lists_are_clipped() -> None:
    status = LLMServiceStatus(
        warnings=[f"warning {number}" for number in range(99)],
        revisions=[RevisionStatus(name=str(number)) for number in range(99)],
    )
    assert (len(status.warnings), len(status.revisions)) == (32, 16)


def test_a_condition_is_unknown_until_judged() -> None:
    condition = Condition(type=ConditionType.CAPACITY_FITS, last_transition_time=NOON)
    assert condition.model_dump(mode="json", by_alias=True) == {
        "type": "CapacityFits",
        "status": "Unknown",
        "reason": "NotEvaluated",
        "message": "",
        "observedGeneration": 0,
        "lastTransitionTime": "2026-01-02T12:00:00Z",
    }


def test_times_are_written_in_utc() -> None:
    assert format_time(NOON.astimezone(timezone(timedelta(hours=2)))) == "2026-01-02T12:00:00Z"


def test_a_status_reads_back_as_it_was_written() -> None:
    status = LLMServiceStatus(
        conditions=[Condition(type=ConditionType.READY, last_transition_time=NOON)],
        signals=SignalsStatus(time_to_first_token_p99=timedelta(milliseconds=120), observed_at=NOON),
    )
    assert LLMServiceStatus.model_validate(status.manifest()) == status


def test_fields_of_a_newer_operator_do_not_stop_reading() -> None:
    assert LLMServiceStatus.model_validate({"decisions": [1], "phase": "Serving"}).phase == "Serving"


@pytest.mark.parametrize("word", [*ConditionType, *Reason])
def test_every_condition_and_reason_says_what_it_means(word: ConditionType | Reason) -> None:
    assert word.meaning.endswith(".")
    assert type(word)(str(word)) is word
