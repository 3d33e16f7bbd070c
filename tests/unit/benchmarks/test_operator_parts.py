"""What the operator's benchmark counts, and what its stand-in replicas say."""

from __future__ import annotations

import os
import random

import pytest
from prometheus_client import generate_latest

from benchmarks.operator_process import count_writes, resident_megabytes
from benchmarks.sizes import places
from benchmarks.standin_replicas import MetricsPage
from llmservice.kube.requests import Answered
from llmservice.process.metrics import OperatorMetrics
from llmservice.repository.gate_config import GATE_INSTANCES
from llmservice.signals.scrape import parse
from llmservice.signals.series import percentile

pytestmark = pytest.mark.unit


def test_writes_are_what_the_operator_counts_without_reads_and_leases() -> None:
    metrics = OperatorMetrics()
    for verb, resource in (
        ("apply", "deployments"),
        ("apply", "deployments"),
        ("create", "events"),
        ("list", "pods"),
        ("get", "llmservices"),
        ("replace", "leases"),
    ):
        metrics.answered(Answered(verb, resource, 200, 0.01))
    assert count_writes(generate_latest(metrics.registry).decode()) == {"deployments": 2, "events": 1}


def test_memory_is_that_of_the_process() -> None:
    assert 10 < resident_megabytes(os.getpid()) < 20_000


def test_a_replica_at_rest_says_the_same_at_every_look() -> None:
    page = MetricsPage("chat")
    assert page.text() == page.text()
    sample = parse(page.text(), "chat")
    assert (sample.waiting, sample.generated_tokens, sample.gate_processes) == (0, 0, GATE_INSTANCES)


def test_a_replica_under_load_says_something_else_at_every_look() -> None:
    page, draw = MetricsPage("chat", read_at=0), random.Random(1)
    page.under_load(draw)
    before = parse(page.text(), "chat")
    page.under_load(draw)
    now = parse(page.text(), "chat")
    assert now.waiting != before.waiting
    assert (now.generated_tokens or 0) >= (before.generated_tokens or 0) > 0
    assert percentile(now.first_tokens, 0.99)


def test_a_rule_counts_at_every_field_it_guards() -> None:
    rule = {"rule": "self > 0"}
    schema = {"x-kubernetes-validations": [rule, rule], "properties": {"a": {"x-kubernetes-validations": [rule]}}}
    assert places({"versions": [schema]}) == 3
