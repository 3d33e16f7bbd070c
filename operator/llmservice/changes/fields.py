"""The table: which field costs what when it changes, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmservice.changes.change_class import ChangeClass


@dataclass(frozen=True)
class FieldRule:
    """What a change of `path`, or of a field below it, costs. The longest path that covers a field decides."""

    path: str
    change_class: ChangeClass
    reason: str

    def covers(self, field: str) -> bool:
        """Whether `field` is this rule's path or lies below it."""
        return field == self.path or field.startswith(self.path + ".")


_NONE, _GATE = ChangeClass.NONE, ChangeClass.GATE_RELOAD
_DRAINED, _ROLLING = ChangeClass.DRAINED_RELOAD, ChangeClass.ROLLING_RESTART

RULES: Final = (
    # Decisions of the operator, and objects beside the pods.
    FieldRule("spec.replicas", _NONE, "replicas come and go, those that serve stay as they are"),
    FieldRule("spec.scaling", _NONE, "bounds decisions only"),
    FieldRule("spec.objectives", _NONE, "guides decisions only"),
    FieldRule("spec.tuning", _NONE, "guides decisions only"),
    FieldRule("spec.rollout", _NONE, "guides the next rollout only"),
    FieldRule("spec.service", _NONE, "the Kubernetes Service is patched, replicas are not touched"),
    FieldRule("spec.placement.pool", _NONE, "a pool's name is not in a pod; what the pool says is compared by itself"),
    FieldRule("pool.acceleratorsPerNode", _NONE, "only the capacity plan looks at it"),
    FieldRule("pool.sharing", _NONE, "only the capacity plan looks at it"),
    FieldRule(
        "fleet.image", _NONE, "a new default image waits for the next revision; spec.engine.image asks for it now"
    ),
    FieldRule("pool.memory", _NONE, "only the capacity plan looks at it"),
    FieldRule("pool.quota", _NONE, "only the capacity plan looks at it"),
    FieldRule("spec.engine.vllm.speculative.repo", _NONE, "only the capacity plan looks at it"),
    # The knobs.
    FieldRule(
        "knobs.maxQueueDelay", _GATE, "Triton takes a queue delay only while it loads a model; the gate has no weights"
    ),
    FieldRule(
        "knobs.engineInstances", ChangeClass.IN_PLACE, "engine instances are added and removed while others serve"
    ),
    FieldRule(
        "knobs.slots",
        ChangeClass.IN_PLACE,
        "slots are only counted, and the engine instances are told another count while they serve",
    ),
    FieldRule("knobs.replicas", _NONE, "replicas come and go, those that serve stay as they are"),
    # The gate's queue.
    FieldRule(
        "spec.batching.maxQueueDelay", _GATE, "seeds the gate's delay, which Triton takes only while it loads a model"
    ),
    FieldRule("spec.batching.priorities", _GATE, "Triton takes priority levels only while it loads a model"),
    FieldRule("spec.batching.queue", _GATE, "the gate takes queue limits at its start"),
    FieldRule("spec.batching.preferredBatchSizes", _GATE, "the gate forms the batches"),
    FieldRule("spec.batching.preserveOrdering", _GATE, "the gate keeps the order"),
    # The engine's configuration.
    FieldRule("spec.batching", _DRAINED, "the engine takes it only at its start"),
    FieldRule("spec.kvCache", _DRAINED, "the engine lays out its cache at its start"),
    FieldRule("spec.model", _DRAINED, "the engine reads it while it loads the model"),
    FieldRule("spec.engine", _DRAINED, "the engine takes it only at its start"),
    # The pod.
    FieldRule("spec.model.source", _ROLLING, "other weights are fetched into a new pod"),
    FieldRule("spec.engine.backend", _ROLLING, "another engine runs in another image"),
    FieldRule("spec.engine.driver", _ROLLING, "another driver is other code in the repository"),
    FieldRule("spec.engine.image", _ROLLING, "a pod keeps its image for life"),
    FieldRule("spec.engine.parallelism", _ROLLING, "a pod keeps its accelerators for life"),
    FieldRule("spec.placement", _ROLLING, "a pod keeps its constraints, its claims and its queue for life"),
    FieldRule("spec.drain", _ROLLING, "a pod keeps its grace period for life"),
    FieldRule("spec.service.openAI", _ROLLING, "the endpoint is a container of the pod, which keeps it for life"),
    FieldRule("spec.model.servedNames", _ROLLING, "the endpoint takes its names at its start"),
    FieldRule("spec.template", _ROLLING, "a pod keeps its template for life"),
    FieldRule("pool", _ROLLING, "a pod keeps its node, its resources and its template for life"),
)

UNKNOWN: Final = FieldRule("", _ROLLING, "this version of the operator does not know the field, so it takes no chance")


def rule_of(field: str) -> FieldRule:
    """The rule that decides about `field`; `UNKNOWN`, the dearest, where none does."""
    return max((rule for rule in RULES if rule.covers(field)), key=lambda rule: len(rule.path), default=UNKNOWN)
