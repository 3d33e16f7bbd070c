"""Two states of a service's inputs → the changes between them, each with its cost."""

from __future__ import annotations

from llmservice.changes.change_class import Change
from llmservice.changes.fields import rule_of
from llmservice.changes.inputs import Inputs


def classify(old: Inputs, new: Inputs) -> tuple[Change, ...]:
    """Every field that differs, dearest first, then by path. Equal inputs give an empty tuple."""
    differing = sorted(field for field in old.keys() | new.keys() if old.get(field) != new.get(field))
    changes = [_change(field) for field in differing]
    return tuple(sorted(changes, key=lambda change: -change.change_class.cost))


def needs_revision(old: Inputs, new: Inputs) -> bool:
    """Whether pods made from `old` cannot become what `new` asks for."""
    return any(change.change_class.needs_revision for change in classify(old, new))


def _change(field: str) -> Change:
    rule = rule_of(field)
    return Change(field, rule.change_class, rule.reason)
