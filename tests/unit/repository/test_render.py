"""Rules of the renderer that a golden does not explain."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings

from llmservice.api.knobs import Knobs
from llmservice.api.validation import validate
from llmservice.repository.errors import RenderError
from llmservice.repository.features import TritonFeatures
from llmservice.repository.gate_config import gate_warnings
from llmservice.repository.layout import Paths
from llmservice.repository.proto import from_text, to_text
from llmservice.repository.render import Repository, Role, render
from llmserving.parameters import Parameters
from llmtorch.options import EngineOptions
from tests.unit.repository.cases import A100, A100_PAIR, CASES, CPU, Case, service
from tests.unit.repository.strategies import cases

pytestmark = pytest.mark.unit

PROPERTY = settings(max_examples=20, deadline=None, derandomize=True)
FEATURES = TritonFeatures.for_version("2.51.0")


def gate(case: Case) -> Any:
    return case.render().config(Role.GATE)


def engine(case: Case) -> Any:
    return case.render().config(Role.ENGINE)


@given(cases())
@PROPERTY
def test_the_services_drawn_here_are_valid(case: Case) -> None:
    assert validate(case.manifest).errors == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_services_of_the_goldens_are_valid(case: Case) -> None:
    assert validate(case.manifest).errors == ()


@given(cases())
@PROPERTY
def test_any_valid_spec_renders_and_says_the_same_twice(case: Case) -> None:
    assert case.render() == case.render()


@given(cases())
@PROPERTY
def test_a_config_map_carries_a_repository_unchanged(case: Case) -> None:
    data = case.render().to_config_map_data()
    assert all(set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.") and len(key) <= 253 for key in data)
    assert Repository.from_config_map_data(data) == case.render()


@given(cases())
@PROPERTY
def test_the_gate_always_has_one_instance_without_a_device(case: Case) -> None:
    (group,) = gate(case).instance_group
    assert (group.count, list(group.gpus)) == (1, [])


@given(cases())
@PROPERTY
def test_a_delay_changes_only_the_gate(case: Case) -> None:
    other = replace(case, knobs=case.knobs.model_copy(update={"max_queue_delay": timedelta(milliseconds=33)}))
    assert engine(other) == engine(case)


@given(cases())
@PROPERTY
def test_an_engine_count_changes_only_the_engines_instance_group(case: Case) -> None:
    other = replace(case, knobs=case.knobs.model_copy(update={"engine_instances": 7}))
    before, after = engine(case), engine(other)
    before.ClearField("instance_group")
    after.ClearField("instance_group")
    assert before == after
    assert gate(other) == gate(case)


@pytest.mark.parametrize(
    ("mode", "sequences", "batch"),
    [
        ("None", 16, 1),
        ("Static", 16, 16),
        ("Dynamic", 16, 16),
        ("Continuous", 16, 4),
        ("Continuous", 3, 3),
        ("Continuous", 1, 1),
    ],
)
def test_the_gates_batch_is_the_engines_only_where_the_gate_forms_it(mode: str, sequences: int, batch: int) -> None:
    case = Case("", {"batching": {"mode": mode}}, plan=replace(CPU, max_sequences=sequences))
    assert gate(case).max_batch_size == batch


def test_without_batching_nothing_waits_and_the_engine_runs_one() -> None:
    case = Case("", {"batching": {"mode": "None"}})
    assert gate(case).dynamic_batching.max_queue_delay_microseconds == 0
    assert engine(case).parameters["max_sequences"].string_value == "1"


def test_the_delay_is_the_knobs_not_the_specs() -> None:
    case = Case("", {"batching": {"maxQueueDelay": "5ms"}}, knobs=Knobs(max_queue_delay=timedelta(microseconds=1500)))
    assert gate(case).dynamic_batching.max_queue_delay_microseconds == 1500


def test_preferred_sizes_that_the_plan_cannot_hold_are_left_out() -> None:
    case = Case("", {"batching": {"mode": "Dynamic", "preferredBatchSizes": [32, 8, 8, 4]}})
    assert list(gate(case).dynamic_batching.preferred_batch_size) == [4, 8]


def test_the_sizes_that_are_left_out_are_told_with_what_to_write() -> None:
    plan = replace(CPU, max_sequences=8)
    case = Case("", {"batching": {"mode": "Dynamic", "preferredBatchSizes": [64, 32, 8, 4]}}, plan)
    (told,) = gate_warnings(case.service, plan)
    assert told.field_path == "spec.batching.preferredBatchSizes"
    assert told.message == "No batch of 32, 64 is formed: the capacity plan has room for 8 sequences at once."
    assert "Write sizes of at most 8, or batching.maxSequences: 64" in told.remedy
    held = Case("", {"batching": {"mode": "Dynamic", "preferredBatchSizes": [8, 4]}}, plan)
    assert gate_warnings(held.service, plan) == ()


def test_requests_that_name_no_level_get_the_lowest_unless_the_spec_says_otherwise() -> None:
    case = Case("", {"batching": {"priorities": {"levels": 3}}})
    assert gate(case).dynamic_batching.default_priority_level == 3


def test_a_level_inherits_what_it_leaves_out() -> None:
    queue = {"maxSize": 100, "timeout": "10s", "levels": [{"level": 1, "maxSize": 5}, {"level": 2, "timeout": "1s"}]}
    case = Case("", {"batching": {"priorities": {"levels": 2, "default": 2}, "queue": queue}})
    assert json.loads(gate(case).parameters["queue_limits"].string_value) == [
        {"max_size": 5, "timeout_us": 10_000_000},
        {"max_size": 100, "timeout_us": 1_000_000},
    ]


@given(cases())
@PROPERTY
def test_triton_is_given_no_queue_policy_since_the_gate_holds_limits_and_timeouts(case: Case) -> None:
    batching = gate(case).dynamic_batching
    assert not batching.HasField("default_queue_policy")
    assert not batching.priority_queue_policy


@pytest.mark.parametrize(
    ("plan", "parallelism", "kind", "gpus"),
    [(CPU, {}, "KIND_CPU", []), (A100, {}, "KIND_GPU", [0]), (A100_PAIR, {"tensor": 2}, "KIND_MODEL", [])],
)
def test_the_engine_lives_where_the_pool_is(plan: Any, parallelism: Any, kind: str, gpus: list[int]) -> None:
    (group,) = engine(Case("", {"engine": {"parallelism": parallelism}}, plan=plan)).instance_group
    assert group.Kind.Name(group.kind) == kind
    assert list(group.gpus) == gpus


def test_paths_follow_the_place_where_triton_runs() -> None:
    local = Paths(run_directory="/run/chat", model_path="/cache/smollm2")
    rendered = render(service({}), CPU, Knobs(), FEATURES, local)
    for role in (Role.GATE, Role.ENGINE):
        assert rendered.config(role).parameters["run_directory"].string_value == "/run/chat"
    assert rendered.config(Role.ENGINE).parameters["model_path"].string_value == "/cache/smollm2"


@pytest.mark.parametrize(
    ("spec", "path", "remedy"),
    [
        ({"engine": {"backend": "tensorrtllm"}}, "spec.engine.driver", "write driver: Nvidia"),
        ({"engine": {"backend": "torch", "driver": "Nvidia"}}, "spec.engine.driver", "write driver: Native"),
        ({"engine": {"parameters": {"slots": "9"}}}, "spec.engine.parameters[slots]", "remove it"),
        (
            {"batching": {"queue": {"levels": [{"level": 1, "maxSize": 2}]}}},
            "spec.batching.queue.levels[0].level",
            "raise priorities.levels",
        ),
        (
            {"batching": {"priorities": {"levels": 2, "default": 3}}},
            "spec.batching.priorities.default",
            "from 1 to 2",
        ),
        (
            {"batching": {"preserveOrdering": True, "priorities": {"levels": 2, "default": 1}}},
            "spec.batching.preserveOrdering",
            "write false",
        ),
    ],
)
def test_what_cannot_be_rendered_names_its_field_and_the_remedy(spec: Any, path: str, remedy: str) -> None:
    with pytest.raises(RenderError, match=remedy) as caught:
        Case("", spec).render()
    assert caught.value.field_path == path


def test_a_triton_without_cancellation_is_refused() -> None:
    with pytest.raises(RenderError, match=r"use an image with 2\.51\.0 or later"):
        render(service({}), CPU, Knobs(), TritonFeatures(version="2.30.0"))


def test_text_and_message_say_the_same() -> None:
    config = gate(CASES[0])
    assert from_text(to_text(config)) == config


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "repository.json is missing"),
        ({"repository.json": '{"format": 2}'}, "another version of the operator"),
        ({"repository.json": '{"format": 1, "files": {"a_.b": "a/b"}, "models": []}'}, "missing: a_.b"),
        ({"repository.json": "[]"}, "not what this operator writes"),
        (
            {"repository.json": '{"format": 1, "files": {}, "models": [{"name": "chat"}]}'},
            "not what this operator writes",
        ),
        ({"repository.json": '{"format": 1, "files": {"k": "../etc/x"}, "models": []}', "k": ""}, "outside.*../etc/x"),
        ({"repository.json": '{"format": 1, "files": {"k": "/etc/x"}, "models": []}', "k": ""}, "outside.*/etc/x"),
        (
            {
                "repository.json": '{"format": 1, "files": {}, "models": '
                '[{"name": "chat", "role": "Gate", "code": "../gate"}]}'
            },
            "outside.*../gate",
        ),
    ],
)
def test_a_config_map_that_is_no_repository_is_refused(data: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Repository.from_config_map_data(data)


def test_a_length_that_only_the_model_says_is_left_to_the_engine() -> None:
    case = CASES[0]
    parameters = engine(replace(case, plan=replace(case.plan, max_length=0))).parameters
    assert "max_length" not in parameters
    options = EngineOptions.from_parameters(Parameters({key: each.string_value for key, each in parameters.items()}))
    assert options.max_length is None


@given(cases())
@PROPERTY
def test_the_torch_engine_reads_what_is_rendered(case: Case) -> None:
    parameters = {key: each.string_value for key, each in engine(case).parameters.items()}
    options = EngineOptions.from_parameters(Parameters(parameters))
    assert options.max_length == (case.plan.max_length or None)
    assert Parameters(parameters).integer("slots", minimum=1) == case.knobs.slots
