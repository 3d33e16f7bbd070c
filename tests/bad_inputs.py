"""Mistakes that people make, and what they are told: by `llmservice validate`, and by a real API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class BadInput:
    """A change to a valid spec; where and what validation says of it; what the API server says, where it differs."""

    change: dict[str, Any]
    field_path: str
    says: str
    server_says: str = ""

    @property
    def expected_of_server(self) -> str:
        """Words that must stand in the API server's refusal."""
        return self.server_says or self.says


BAD_INPUTS: Final = {
    "unknown field": BadInput(
        {"batching": {"maxSequence": 8}},
        "spec.batching.maxSequence",
        "did you mean maxSequences?",
        'unknown field "spec.batching.maxSequence"',
    ),
    "field in snake case": BadInput(
        {"batching": {"max_queue_delay": "5ms"}},
        "spec.batching.max_queue_delay",
        "did you mean maxQueueDelay?",
        'unknown field "spec.batching.max_queue_delay"',
    ),
    "field one level too high": BadInput(
        {"maxSequences": 8}, "spec.maxSequences", "remove it", 'unknown field "spec.maxSequences"'
    ),
    "wrong type": BadInput(
        {"batching": {"maxSequences": "8"}}, "spec.batching.maxSequences", "without quotes", "must be of type integer"
    ),
    "list instead of object": BadInput({"batching": []}, "spec.batching", "an object", "must be of type object"),
    "fraction": BadInput(
        {"kvCache": {"memoryPercent": 0.9}}, "spec.kvCache.memoryPercent", "a whole number", "must be of type integer"
    ),
    "unknown choice": BadInput(
        {"engine": {"backend": "pytorch"}},
        "spec.engine.backend",
        "write torch, vllm or tensorrtllm",
        'supported values: "torch", "vllm", "tensorrtllm"',
    ),
    "bare Off": BadInput({"tuning": {"mode": False}}, "spec.tuning.mode", "write 'Off'", "must be of type string"),
    "negative number": BadInput(
        {"batching": {"maxSequences": -1}}, "spec.batching.maxSequences", "at least 1", "greater than or equal to 1"
    ),
    "absurd number": BadInput(
        {"batching": {"maxSequences": 10**9}},
        "spec.batching.maxSequences",
        "at most 4096",
        "less than or equal to 4096",
    ),
    "negative replicas": BadInput({"replicas": -1}, "spec.replicas", "at least 0", "greater than or equal to 0"),
    "delay without a unit": BadInput({"batching": {"maxQueueDelay": 5}}, "spec.batching.maxQueueDelay", "write 5ms"),
    "delay without a unit, in quotes": BadInput(
        {"batching": {"maxQueueDelay": "5"}}, "spec.batching.maxQueueDelay", "write 5ms"
    ),
    "timeout without a unit": BadInput(
        {"batching": {"queue": {"timeout": 30}}}, "spec.batching.queue.timeout", "30 has no unit"
    ),
    "negative delay": BadInput({"batching": {"maxQueueDelay": -5}}, "spec.batching.maxQueueDelay", "-5 is negative"),
    "delay in words": BadInput(
        {"batching": {"maxQueueDelay": "fast"}}, "spec.batching.maxQueueDelay", "fast is not a duration"
    ),
    "delay with a space": BadInput(
        {"batching": {"maxQueueDelay": "5 ms"}}, "spec.batching.maxQueueDelay", "5 ms is not a duration"
    ),
    "absurd delay": BadInput(
        {"batching": {"mode": "Dynamic", "maxQueueDelay": "1h"}}, "spec.batching.maxQueueDelay", "1h is too long"
    ),
    "memory in the wrong unit": BadInput(
        {"template": {"resources": {"requests": {"memory": "4GB"}}}},
        "spec.template.resources.requests.memory",
        "4GB is not a quantity",
    ),
    "a volume without a name": BadInput(
        {"template": {"volumes": [{"emptyDir": {}}]}}, "spec.template.volumes[0]", "has no name", "Required value"
    ),
    "no source": BadInput({"model": {"source": {}}}, "spec.model.source", "exactly one source"),
    "a Secret's name in capitals": BadInput(
        {"model": {"source": {"huggingFace": {"repo": "a/b", "tokenSecretRef": {"name": "HF", "key": "token"}}}}},
        "spec.model.source.huggingFace.tokenSecretRef.name",
        "must match",
        "should match",
    ),
}
