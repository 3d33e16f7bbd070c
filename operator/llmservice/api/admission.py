"""The ValidatingAdmissionPolicy that shows the warnings at `kubectl apply`."""

from __future__ import annotations

from typing import Any, Final

from llmservice.api.admission_policy import binding, policy
from llmservice.api.schema import literal
from llmservice.api.service import GROUP, PLURAL
from llmservice.api.warnings import WARNINGS, WarningRule

NAME: Final = f"{PLURAL}-warnings.{GROUP}"


def admission_policy() -> dict[str, Any]:
    """The policy: one validation per warning. It never refuses; where it fails itself, it stays silent."""
    return policy(NAME, [_validation(rule) for rule in WARNINGS])


def admission_binding() -> dict[str, Any]:
    """The binding that turns the policy's findings into warnings."""
    return binding(NAME, "Warn")


def _validation(rule: WarningRule) -> dict[str, Any]:
    text = literal(rule.message)
    validation: dict[str, Any] = {"expression": f"!({rule.expression})"}
    if text is not None:
        return validation | {"message": f"{rule.field_path}: {text}"}
    # The static text stands in where the expression fails; both name the field.
    return validation | {"messageExpression": f"'{rule.field_path}: ' + {rule.message}"}
