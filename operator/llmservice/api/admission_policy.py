"""The form of a ValidatingAdmissionPolicy over our objects, and of its binding, whatever it looks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmservice.api.service import GROUP, PLURAL, VERSION

API_VERSION = "admissionregistration.k8s.io/v1"


def policy(name: str, validations: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The policy. Where it fails itself, it stays silent; `more` are further fields of its spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [GROUP],
                        "apiVersions": [VERSION],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [PLURAL],
                    }
                ]
            },
            **more,
            "validations": list(validations),
        },
    }


def binding(name: str, action: str) -> dict[str, Any]:
    """The binding of the policy of that name: `Warn` or `Deny`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": [action]},
    }
