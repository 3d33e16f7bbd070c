"""The base of every API type, and the CEL rules that stand beside the fields they guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema

RULES: Final = "x-kubernetes-validations"
CODE: Final = "x-code"
"""Key of a rule's code inside the schema; the generator takes it out of what the API server sees."""
NO_DEFAULT: Final = "x-no-default"
"""Key that keeps a default out of the CRD, so that a rule can tell 'left out' from 'written'."""


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

    def schema(self) -> dict[str, Any]:
        """The rule as an item of `x-kubernetes-validations`, with its code."""
        text = literal(self.message)
        entry: dict[str, Any] = {CODE: self.code, "rule": " ".join(self.expression.split())}
        entry |= {"message": text} if text is not None else {"messageExpression": " ".join(self.message.split())}
        if self.field_path:
            entry["fieldPath"] = self.field_path
        if self.optional_old_self:
            entry["optionalOldSelf"] = True
        return entry


def literal(expression: str) -> str | None:
    """The text of a CEL expression that is one string literal in double quotes; None for anything else."""
    inner = expression[1:-1]
    quoted = len(expression) > 1 and expression[0] == expression[-1] == '"'
    return inner if quoted and '"' not in inner and "\\" not in inner else None


def with_rules(schema: dict[str, Any], *rules: Rule) -> dict[str, Any]:
    """`schema` with `rules` added."""
    return schema | {RULES: [*schema.get(RULES, []), *(rule.schema() for rule in rules)]}


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

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        """The JSON schema with the class's rules in it."""
        json_schema = handler.resolve_ref_schema(handler(schema))
        if cls.rules:
            json_schema[RULES] = [rule.schema() for rule in cls.rules]
        return json_schema
