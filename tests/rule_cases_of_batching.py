"""Cases of the rules that Triton enforces, and of batching."""

from __future__ import annotations

from typing import Final

from tests.rule_case import LEVELS, RuleCase, batching, nvidia

TRITON_CASES: Final = (
    RuleCase("V1-name", {}, {}, "a Triton model", "chat-13b", "13b-chat"),
    RuleCase(
        "V1-served-name",
        {"model": {"servedNames": ["meta-llama/Llama-2:13b"]}},
        {"model": {"servedNames": ["good", "not good"]}},
        "not good cannot be served under",
    ),
    RuleCase(
        "V6-preferred-size",
        batching(mode="Dynamic", maxSequences=8, preferredBatchSizes=[4, 8]),
        batching(mode="Dynamic", maxSequences=8, preferredBatchSizes=[4, 9]),
        "above maxSequences (8)",
    ),
    RuleCase(
        "V7-default-level",
        batching(priorities=LEVELS),
        batching(priorities={"levels": 3}),
        "write default: 3",
    ),
    RuleCase(
        "V7-default-range",
        batching(priorities={"levels": 3, "default": 3}),
        batching(priorities={"levels": 3, "default": 4}),
        "default level 4 is not one of the 3 levels",
    ),
    RuleCase(
        "V8-queue-level-range",
        batching(priorities=LEVELS, queue={"levels": [{"level": 3, "maxSize": 1}]}),
        batching(priorities=LEVELS, queue={"levels": [{"level": 4, "maxSize": 1}]}),
        "only name levels 1 to 3",
    ),
    RuleCase(
        "V9-preserve-ordering",
        batching(preserveOrdering=True, priorities={"levels": 1, "default": 1}),
        batching(preserveOrdering=True, priorities=LEVELS),
        "exclude each other",
    ),
)

BATCHING_CASES: Final = (
    RuleCase("own-name-length", {}, {}, "at most 45 characters", "a" * 45, "a" * 46),
    RuleCase(
        "own-preferred-mode",
        batching(mode="Dynamic", preferredBatchSizes=[4]),
        batching(mode="Continuous", preferredBatchSizes=[4]),
        "mean nothing in mode Continuous",
    ),
    RuleCase(
        "own-batch-tokens",
        batching(maxSequences=8, maxBatchTokens=8),
        batching(maxSequences=8, maxBatchTokens=7),
        "write at least 8",
    ),
    RuleCase(
        "own-delay-range",
        batching(mode="Dynamic", maxQueueDelay="10s"),
        batching(mode="Dynamic", maxQueueDelay="11s"),
        "11s is too long to wait",
    ),
    RuleCase("own-duration-unit", batching(maxQueueDelay="5ms"), batching(maxQueueDelay=5), "write 5ms"),
    RuleCase(
        "own-queue-timeout",
        batching(queue={"timeout": "1ms"}),
        batching(queue={"timeout": "0s"}),
        "refuses every request",
    ),
    RuleCase(
        "own-queue-level-once",
        batching(priorities=LEVELS, queue={"levels": [{"level": 1}, {"level": 2}]}),
        batching(priorities=LEVELS, queue={"levels": [{"level": 1}, {"level": 1}]}),
        "may appear once",
    ),
    RuleCase("own-nvidia-mode", nvidia(mode="Continuous"), nvidia(mode="Static"), "instead of Static"),
    RuleCase("own-nvidia-delay", nvidia(), nvidia(maxQueueDelay="5ms"), "remove maxQueueDelay"),
    RuleCase(
        "own-nvidia-priorities",
        nvidia(priorities={"levels": 0}),
        nvidia(priorities=LEVELS),
        "priorities mean nothing",
    ),
    RuleCase("own-nvidia-queue", nvidia(queue={}), nvidia(queue={"maxSize": 8}), "queue limits mean nothing"),
    RuleCase(
        "own-delay-in-bounds",
        batching(maxQueueDelay="50ms") | {"tuning": {"mode": "Auto"}},
        batching(maxQueueDelay="60ms") | {"tuning": {"mode": "Auto"}},
        "60ms is outside",
    ),
)
