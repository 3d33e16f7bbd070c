"""Whether a model runs with the configuration that was sent, although Triton fills in fields of its own."""

from __future__ import annotations

from typing import Any, Final

_FILLED_IN: Final = ("version_policy", "optimization", "default_model_filename", "runtime")
"""Fields that Triton fills in and the operator never renders (core/src/model_config_utils.cc,
`NormalizeModelConfig`)."""


def differing_fields(wanted: Any, running: Any) -> tuple[str, ...]:
    """Top-level fields in which two `ModelConfig`s differ once what Triton fills in is taken away; () when none."""
    left, right = submitted_form(wanted), submitted_form(running)
    fields = sorted({field.name for message in (left, right) for field, _ in message.ListFields()})
    return tuple(field for field in fields if _value(left, field) != _value(right, field))


def instances(config: Any) -> int:
    """Instances that `config` asks for, all groups and listed GPUs together."""
    return sum(group.count * max(1, len(group.gpus)) for group in config.instance_group)


def submitted_form(config: Any) -> Any:
    """A copy of `config` without what Triton adds to a configuration that was submitted whole."""
    copy = type(config)()
    copy.CopyFrom(config)
    for field in _FILLED_IN:
        copy.ClearField(field)
    for group in copy.instance_group:
        group.ClearField("name")
    batching = copy.dynamic_batching
    if copy.HasField("dynamic_batching") and list(batching.preferred_batch_size) in ([], [copy.max_batch_size]):
        batching.ClearField("preferred_batch_size")
    return copy


def _value(message: Any, field: str) -> Any:
    """A field's value; None for a message field that is absent, which equals no present one."""
    descriptor = message.DESCRIPTOR.fields_by_name[field]
    if descriptor.has_presence and not message.HasField(field):
        return None
    return getattr(message, field)
