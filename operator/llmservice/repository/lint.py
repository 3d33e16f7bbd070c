"""`llmservice validate --pbtxt FILE`: what Triton refuses in a `config.pbtxt`, and what it silently gets wrong."""

from __future__ import annotations

from dataclasses import replace

from llmservice.repository import pbtxt_rules, pbtxt_syntax, pbtxt_traps
from llmservice.repository.pbtxt_fields import written_fields
from llmservice.repository.pbtxt_finding import Lines, PbtxtFinding, Severity

__all__ = ["PbtxtFinding", "Severity", "lint_pbtxt"]


def lint_pbtxt(text: str, filename: str = "config.pbtxt") -> list[PbtxtFinding]:
    """Findings by line, errors before warnings on the same one; [] when Triton takes `text` and means it.

    The text is read by protobuf's own parser with Triton's message. Parts that do not parse are explained and left
    out, and the rest is checked all the same.
    """
    config, findings = pbtxt_syntax.parse(text)
    broken = bool(findings)
    line = Lines((field.path, field.line) for field in written_fields(text))
    found = [*pbtxt_rules.check(config, line, filename), *pbtxt_traps.check(config, line)]
    # What is missing may only be missing because its part did not parse.
    findings += [finding for finding in found if finding.line or not broken]
    findings.sort(key=lambda finding: (finding.line, finding.severity is Severity.WARNING, finding.code))
    return [replace(finding, filename=filename) for finding in findings]
