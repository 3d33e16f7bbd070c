"""Wrong and misleading `config.pbtxt` texts, each with what the linter must say of it.

Those of severity error are also given to a real tritonserver, which must refuse them; warnings it must take.
"""

from __future__ import annotations

from dataclasses import dataclass

GOOD = """\
name: "m"
backend: "python"
max_batch_size: 8
input [ { name: "text" data_type: TYPE_STRING dims: [1] } ]
output [ { name: "out" data_type: TYPE_STRING dims: [1] } ]
"""
TENSORS = GOOD.replace("max_batch_size: 8\n", "")


@dataclass(frozen=True)
class Sample:
    """`text` after `base`; the finding's code, its line in the whole, and a part of what it says."""

    code: str
    text: str
    line: int
    says: str
    base: str = GOOD

    @property
    def whole(self) -> str:
        return self.base + self.text


ERRORS = (
    Sample("syntax-model-parameters", "model_parameters {\n  memory_pool { gpu { size: 2048 } }\n}\n", 6, "flags of"),
    Sample("syntax-priority-levels", "dynamic_batching {\n  priority_levels { level: 2 }\n}\n", 7, "is a number"),
    Sample("syntax-misplaced", "max_queue_delay_microseconds: 5\n", 6, "inside `dynamic_batching { … }`"),
    Sample("syntax-unknown-field", "dynamic_batching { preferred_batch_sizes: [4] }\n", 6, "`preferred_batch_size`?"),
    Sample("syntax-unknown-field", 'parameters { model: "x" }\n', 6, 'parameters { key: "name"'),
    Sample("syntax-unknown-value", "instance_group [ { count: 1 kind: GPU } ]\n", 6, "`KIND_GPU`?"),
    Sample("syntax-twice", "max_batch_size: 4\n", 6, "written twice"),
    Sample("syntax-two-schedulers", "dynamic_batching { }\nsequence_batching { }\n", 7, "beside `dynamic_batching`"),
    Sample("syntax", "dynamic_batching { preserve_ordering: yes }\n", 6, "does not parse"),
    Sample("V24", "dynamic_batching { max_queue_delay_microseconds: 5ms }\n", 6, "5 ms is 5000"),
    Sample("V24", "dynamic_batching { max_queue_delay_microseconds: -1 }\n", 6, "whole number"),
    Sample("V1", 'name: "other"\n', 6, "not that of the folder", base=GOOD.replace('name: "m"\n', "\n")),
    Sample("V3", "max_batch_size: -1\n", 5, "negative", base=TENSORS),
    Sample("V5", "dynamic_batching { preferred_batch_size: [0, 8] }\n", 6, "not positive"),
    Sample("V6", "dynamic_batching { preferred_batch_size: [4, 16] }\n", 6, "above `max_batch_size` (8)"),
    Sample("V7", "dynamic_batching {\n  priority_levels: 2\n}\n", 7, "from 1 to 2 is mandatory"),
    Sample("V7", "dynamic_batching {\n  priority_levels: 2\n  default_priority_level: 3\n}\n", 8, "mandatory"),
    Sample(
        "V8",
        "dynamic_batching {\n  priority_levels: 2\n  default_priority_level: 2\n"
        "  priority_queue_policy { key: 3 value { max_queue_size: 1 } }\n}\n",
        9,
        "names level 3, but there are 2",
    ),
    Sample(
        "V9",
        "dynamic_batching {\n  preserve_ordering: true\n  priority_levels: 2\n  default_priority_level: 2\n}\n",
        7,
        "cannot stand beside more than one priority level",
    ),
    Sample(
        "V10",
        "dynamic_batching {\n  preserve_ordering: true\n"
        "  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 }\n}\n",
        7,
        "DELAY",
    ),
    Sample("V11", "sequence_batching { }\nresponse_cache { enable: true }\n", 7, "Sequences cannot"),
    Sample(
        "V12", "model_transaction_policy { decoupled: true }\nresponse_cache { enable: true }\n", 7, "Decoupled answers"
    ),
    Sample("V13", "sequence_batching { oldest { preferred_batch_size: [16] } }\n", 6, "above `max_batch_size`"),
    Sample("V14", "sequence_batching { direct { minimum_slot_utilization: 2 } }\n", 6, "from 0 to 1"),
    Sample("V17", "instance_group [ { kind: KIND_CPU gpus: [0] } ]\n", 6, "KIND_CPU may not list `gpus`"),
    Sample("V20", "input [ { data_type: TYPE_FP32 dims: [1] } ]\n", 6, "Input 2 has no name"),
    Sample("V20", 'input [ { name: "b" dims: [1] } ]\n', 6, "Input b has no `data_type`"),
    Sample("V20", 'output [ { name: "b" data_type: TYPE_FP32 } ]\n', 6, "Output b has no `dims`"),
    Sample("V20", 'output [ { name: "b" data_type: TYPE_FP32 dims: [-2] } ]\n', 6, "size below 1"),
    Sample(
        "V22", "model_metrics { metric_control [ { histogram_options { buckets: [1] } } ] }\n", 6, "names no family"
    ),
)

WARNINGS = (
    Sample("V2", "", 0, "guesses", base=GOOD.replace('backend: "python"\n', "")),
    Sample("trap-count", "instance_group [ { count: 0 kind: KIND_CPU } ]\n", 6, "becomes 1"),
    Sample("trap-priorities-off", "dynamic_batching { default_priority_level: 1 }\n", 6, "ignored"),
    Sample(
        "trap-timeout-override",
        "dynamic_batching { default_queue_policy { allow_timeout_override: true } }\n",
        6,
        "none to shorten",
    ),
    Sample(
        "trap-size-per-level",
        "dynamic_batching {\n  priority_levels: 2 default_priority_level: 1\n"
        "  default_queue_policy { max_queue_size: 8 }\n}\n",
        8,
        "16 requests may wait, not 8",
    ),
    Sample(
        "trap-no-prefetch",
        "model_transaction_policy { decoupled: true }\n"
        "dynamic_batching { default_queue_policy { max_queue_size: 8 } }\n",
        7,
        "one instance idles",
    ),
    Sample("trap-no-batches", "dynamic_batching { max_queue_delay_microseconds: 9 }\n", 5, "9 µs", base=TENSORS),
    Sample("trap-preferred-sizes", "dynamic_batching { preferred_batch_size: [4] }\n", 6, "Batches of 5 will come"),
    Sample(
        "trap-shapes",
        'dynamic_batching { }\ninput [ { name: "ids" data_type: TYPE_INT32 dims: [-1] } ]\n',
        7,
        "ids differ in length",
    ),
    Sample(
        "trap-optional-inputs",
        'dynamic_batching { }\ninput [ { name: "b" data_type: TYPE_BOOL dims: [1] optional: true } ]\n',
        7,
        "same optional inputs (b)",
    ),
    Sample(
        "trap-ordered-streams",
        "model_transaction_policy { decoupled: true }\ndynamic_batching { preserve_ordering: true }\n",
        7,
        "waits until every earlier one",
    ),
)

OWN_QUEUE = GOOD.replace('"python"', '"vllm"')
STOCK = (
    Sample("V25", "", 2, "not decoupled", base=OWN_QUEUE),
    Sample("trap-own-queue", "dynamic_batching { max_queue_delay_microseconds: 5 }\n", 6, "at once", base=OWN_QUEUE),
    Sample("trap-copies", "instance_group [ { count: 2 } ]\n", 6, "loads the weights again", base=OWN_QUEUE),
)
"""Warnings about backends that are not on every machine."""
