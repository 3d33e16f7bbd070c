"""The base of every API type, and the CEL rules that stand beside the fields they guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


@dataclass(frozen=True)
class Rule:
    """One CEL rule of the CRD, evaluated by the API server and again by the reconciler.

    `expression` sees the object it is declared on as `self`. `message` is a CEL expression that gives the text a
    person reads: what is wrong and what to write instead. `code` names the Triton rule it mirrors (V1 to V25) or
    our own (`own-…`); each code has an accept test and a reject test on a real API server.
    """

    code: str
    expression: str
    message: str
    field_path: str = ""
    optional_old_self: bool = False


class ApiModel(BaseModel):
    """Frozen, camelCase on the wire, unknown fields rejected."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        validate_default=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
