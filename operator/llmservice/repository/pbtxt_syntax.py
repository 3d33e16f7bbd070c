"""Text that Triton's parser refuses, explained: first the forms that articles spread, then whatever else fails."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor

from llmservice.repository.pbtxt_fields import WrittenField, innermost_at, replace_field, written_fields
from llmservice.repository.pbtxt_finding import PbtxtFinding, error
from llmservice.repository.proto import DESCRIPTOR, from_text

_MOST_ERRORS: Final = 50
_UNKNOWN_FIELD = re.compile(r'Message type "(?P<message>[\w.]+)" has no field named "(?P<field>\w+)"')
_UNKNOWN_VALUE = re.compile(r'Enum type "(?P<enum>[\w.]+)" has no value named (?P<value>\w+)')
_TWICE = re.compile(r'should not have multiple "(?P<field>\w+)" fields')
_ONE_OF = re.compile(r'Field "(?P<second>\w+)" is specified along with field "(?P<first>\w+)"')
_NUMBER = re.compile(r"(?:Couldn't parse integer|Value out of range): (?P<value>\S+)")

MEMORY_REMEDY: Final = (
    "Triton's own pools are flags of tritonserver, --cuda-memory-pool-byte-size=0:<bytes> and "
    "--pinned-memory-pool-byte-size=<bytes>. The memory of the model belongs to its backend: gpu_memory_utilization in "
    "vLLM's model.json, kv_cache_free_gpu_mem_fraction in TensorRT-LLM, spec.kvCache.memoryPercent in an LLMService."
)


PRIORITY_REMEDY: Final = (
    "Write `priority_levels: {level}` and, which is mandatory then, `default_priority_level: {level}`, both inside "
    "`dynamic_batching {{ … }}`. Limits per level go into `priority_queue_policy {{ key: 1 value {{ timeout_action: "
    "REJECT default_timeout_microseconds: 500000 max_queue_size: 64 }} }}`."
)


def parse(text: str) -> tuple[Any, list[PbtxtFinding]]:
    """What can be parsed of `text` as a `ModelConfig`, and a finding for each part that cannot.

    A part that fails is blanked out and the rest is parsed again, so that one mistake does not hide the next.
    """
    findings: list[PbtxtFinding] = []
    for mistaken, finding, right_form in _known_mistakes(text):
        findings.append(finding)
        text = replace_field(text, mistaken, right_form)
    for _ in range(_MOST_ERRORS):
        try:
            return from_text(text), findings
        except text_format.ParseError as failure:
            line = failure.GetLine() or 0
            findings.append(_explain(failure, line))
            field = innermost_at(written_fields(text), text, line, failure.GetColumn() or 1)
            if field is None:
                break
            text = replace_field(text, field)
    return from_text(""), findings


def _known_mistakes(text: str) -> Iterator[tuple[WrittenField, PbtxtFinding, str]]:
    """Forms that people copy from articles and that no Triton ever took, last first; each with what was meant."""
    fields = written_fields(text)
    names = {field.name for field in fields}
    for field in reversed(fields):
        if field.path in (("model_parameters",), ("memory_pool",)):
            said = f"There is no `{field.name}` in a model configuration: the whole model fails to load."
            yield field, error("syntax-model-parameters", field.line, said, MEMORY_REMEDY), ""
        elif field.name == "priority_levels" and field.block:
            level = (re.findall(r"\d+", text[field.start : field.end]) or ["2"])[0]
            default = "" if "default_priority_level" in names else f" default_priority_level: {level}"
            said = "`priority_levels` is a number, not a block."
            remedy = PRIORITY_REMEDY.format(level=level)
            finding = error("syntax-priority-levels", field.line, said, remedy)
            yield field, finding, f"priority_levels: {level}{default}"


def _explain(failure: text_format.ParseError, line: int) -> PbtxtFinding:
    """A finding for one failure of the parser."""
    said = str(failure)
    if match := _UNKNOWN_FIELD.search(said):
        return _unknown_field(match["message"], match["field"], line)
    if match := _UNKNOWN_VALUE.search(said):
        return _unknown_value(match["enum"], match["value"], line)
    if match := _TWICE.search(said):
        return error("syntax-twice", line, f"`{match['field']}` is written twice.", "Keep one.")
    if match := _ONE_OF.search(said):
        first, second = match["first"], match["second"]
        remedy = f"Keep `{first}` or `{second}`: a model has one way to schedule."
        return error("syntax-two-schedulers", line, f"`{second}` stands beside `{first}`.", remedy)
    if match := _NUMBER.search(said):
        remedy = (
            "Write a whole number without a unit, in the range of the field; times are microseconds, so 5 ms is 5000."
        )
        return error("V24", line, f"`{match['value']}` is no value for this field.", remedy)
    detail = said.split(" : ", 1)[-1].rsplit("': ", 1)[-1]
    remedy = "Fields are written `name: value` or `name { … }`, lists `name: [ … ]`, text in double quotes."
    return error("syntax", line, f"This does not parse: {detail}", remedy)


def _unknown_field(message: str, field: str, line: int) -> PbtxtFinding:
    """The field may exist elsewhere, or be a misspelling."""
    here = _message(message)
    said = f"`{field}` is no field of {'a model configuration' if here is DESCRIPTOR else f'`{here.name}`'}."
    if homes := _homes(field):
        return error("syntax-misplaced", line, said, f"It belongs inside {' or '.join(homes)}.")
    near = difflib.get_close_matches(field, [known.name for known in here.fields], n=1, cutoff=0.7)
    if near:
        return error("syntax-unknown-field", line, said, f"Did you mean `{near[0]}`?")
    if here.name == "ParametersEntry":
        remedy = 'A parameter is written `parameters { key: "name" value { string_value: "text" } }`.'
    else:
        remedy = 'Remove it; what a backend wants goes into `parameters { key: "…" value { string_value: "…" } }`.'
    return error("syntax-unknown-field", line, said, remedy)


def _unknown_value(enum: str, value: str, line: int) -> PbtxtFinding:
    """Values carry a prefix that people leave out: KIND_GPU, TYPE_FP32."""
    names = sorted(_enum_values(enum))
    fitting = [name for name in names if name.endswith(f"_{value.upper()}")]
    fitting = fitting or difflib.get_close_matches(value.upper(), names, n=1, cutoff=0.6)
    remedy = f"Did you mean `{fitting[0]}`?" if fitting else f"Write one of {', '.join(names)}."
    return error("syntax-unknown-value", line, f"`{value}` is no {enum.rsplit('.', 1)[-1]}.", remedy)


def _messages(descriptor: Descriptor) -> dict[str, tuple[Descriptor, str]]:
    """Every message below `descriptor` by full name, with the field path that leads to it first."""
    found = {descriptor.full_name: (descriptor, "")}
    waiting = [(descriptor, "")]
    while waiting:
        message, path = waiting.pop(0)
        for field in message.fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in found:
                found[inner.full_name] = (inner, f"{path}{field.name}.")
                waiting.append((inner, f"{path}{field.name}."))
    return found


_MESSAGES: Final = _messages(DESCRIPTOR)


def _message(full_name: str) -> Descriptor:
    return _MESSAGES.get(full_name, (DESCRIPTOR, ""))[0]


def _homes(field: str) -> list[str]:
    """Where a field of this name may stand, as `dynamic_batching { … }`, at most two."""
    homes = [path.rstrip(".") for message, path in _MESSAGES.values() if path and field in message.fields_by_name]
    return [f"`{home.replace('.', ' { ')} {{ … }}`" for home in homes if home.count(".") == 0][:2]


def _enum_values(full_name: str) -> list[str]:
    """The names of the values of an enum."""
    for message, _ in _MESSAGES.values():
        for field in message.fields:
            if field.enum_type is not None and field.enum_type.full_name == full_name:
                return list(field.enum_type.values_by_name)
    return []
