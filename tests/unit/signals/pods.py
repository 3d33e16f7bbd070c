"""A gate and an engine as their counters tell of them, scrape by scrape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmservice.signals.series import PodHistory, SeriesId

GATE = {"model": "chat", "instance": "g1"}
ENGINE = {"model": "chat-engine", "instance": "e1"}


@dataclass
class Pod:
    """One pod's counters; `scrape` writes them into its history."""

    history: PodHistory = field(default_factory=PodHistory)
    values: dict[SeriesId, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for outcome in ("completed", "failed", "cancelled", "invalid"):
            self.put("llm_gate_requests_total", {**GATE, "outcome": outcome}, 0)
        for name in ("llm_gate_held_requests", "llm_gate_admitted_requests"):
            self.put(name, GATE, 0)
        self.put("nv_inference_pending_request_count", {"model": "chat", "version": "1"}, 0)
        for kind in ("prompt", "generated"):
            self.put("llm_engine_tokens_total", {**ENGINE, "kind": kind}, 0)
        for name in ("llm_engine_running_sequences", "llm_engine_waiting_sequences", "llm_engine_kv_cache_usage_ratio"):
            self.put(name, ENGINE, 0)

    def put(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self.values[SeriesId.of(name, labels)] = value

    def add(self, name: str, labels: Mapping[str, str], more: float) -> None:
        series = SeriesId.of(name, labels)
        self.values[series] = self.values.get(series, 0) + more

    def complete(self, requests: float, *, tokens: float = 10) -> None:
        self.add("llm_gate_requests_total", {**GATE, "outcome": "completed"}, requests)
        self.add("llm_engine_tokens_total", {**ENGINE, "kind": "generated"}, requests * tokens)
        self.add("llm_engine_tokens_total", {**ENGINE, "kind": "prompt"}, requests * 5)

    def step(self, batch_size: int, count: float, seconds: float) -> None:
        labels = {**ENGINE, "batch_size": str(batch_size)}
        self.add("llm_engine_steps_total", labels, count)
        self.add("llm_engine_step_seconds_total", labels, seconds)

    def restart(self) -> None:
        """The container began again: every counter from zero, under the same labels."""
        self.values = dict.fromkeys(self.values, 0.0)

    def scrape(self, at: float) -> None:
        self.history.add(at, self.values.items())
