"""Edits of the file: what comes live, what needs a restart, what means nothing here."""

from __future__ import annotations

import pytest

from llmservice.local.edit_follower import in_words
from llmservice.local.edits import Edit, plan_edit
from llmservice.local.errors import LocalError
from llmservice.local.intent import Intent
from tests.unit.local.manifests import HOST, gate_config, intent

pytestmark = pytest.mark.unit


def edit(old: Intent, new: Intent) -> Edit:
    return plan_edit(old, new, HOST)


def test_a_delay_changes_live() -> None:
    found = edit(intent(), intent(batching={"maxQueueDelay": "40ms"}))
    assert [change.field for change in found.live] == ["spec.batching.maxQueueDelay"]
    assert (found.restart, found.without_effect) == ((), ())
    assert "max_queue_delay_microseconds: 40000" in gate_config(found.after)


def test_engine_instances_change_live() -> None:
    tuning = {"mode": "Off", "bounds": {"engineInstances": {"min": 2, "max": 2}}}
    found = edit(intent(), intent(tuning=tuning))
    assert [change.field for change in found.live] == ["knobs.engineInstances"]
    assert found.without_effect == ()
    assert found.after.knobs.engine_instances == 2


def test_what_the_engine_takes_at_its_start_needs_a_restart_and_stays_as_it_runs() -> None:
    found = edit(intent(), intent(batching={"maxSequences": 4, "maxQueueDelay": "40ms"}))
    assert [change.field for change in found.restart] == ["spec.batching.maxSequences"]
    assert [change.field for change in found.live] == ["spec.batching.maxQueueDelay"]
    assert found.after.service.spec.batching.max_sequences == 16
    assert "max_queue_delay_microseconds: 40000" in gate_config(found.after)


def test_a_field_that_is_taken_out_is_kept_until_a_restart() -> None:
    old = intent(engine={"parameters": {"a.b": "1", "threads": "2"}})
    found = edit(old, intent(engine={"parameters": {"threads": "2"}}))
    assert [change.field for change in found.restart] == ["spec.engine.parameters.a.b"]
    assert found.after.service.spec.engine.parameters == {"a.b": "1", "threads": "2"}


def test_what_only_a_cluster_knows_changes_nothing() -> None:
    found = edit(intent(), intent(template={"resources": {"requests": {"cpu": "1"}}}, scaling={"maxReplicas": 5}))
    assert (found.live, found.restart) == ((), ())
    assert {change.field.split(".")[1] for change in found.without_effect} == {"template", "scaling"}


def test_the_endpoint_is_started_anew_and_the_service_before_it_means_nothing_here() -> None:
    found = edit(intent(), intent(service={"type": "NodePort", "openAI": {"requestTimeout": "90s"}}))
    assert [change.field for change in found.restart] == ["spec.service.openAI.requestTimeout"]
    assert [change.field for change in found.without_effect] == ["spec.service.type"]


def test_an_edit_of_nothing_says_so() -> None:
    assert in_words(edit(intent(), intent())) == ["edit: nothing that serves differs"]


def test_each_field_has_its_line() -> None:
    lines = in_words(edit(intent(), intent(batching={"maxSequences": 4, "maxQueueDelay": "40ms"})))
    assert lines[0].startswith("edit: spec.batching.maxQueueDelay changes live: ")
    assert lines[1].startswith("edit: spec.batching.maxSequences needs a restart of this command: ")


def test_another_name_is_refused() -> None:
    with pytest.raises(LocalError, match=r"metadata\.name"):
        edit(intent("chat"), intent("other"))
