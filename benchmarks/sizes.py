"""What is counted, not timed: `python -m benchmarks.sizes`. Image, CRD, rules with their tests, tests by tier."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from typing import Any, Final

from benchmarks.figures import ROOT, Figures
from cluster import images
from cluster.settings import from_environment
from llmservice.api.crd import crd, crd_yaml
from llmservice.api.reference import rules
from llmservice.api.schema import RULES
from tests.rule_cases import RULE_CASES

TIERS: Final = ("unit", "cluster", "e2e")
IMAGE_GOAL: Final = 250
CRD_GOAL: Final = 256 * 1024
TEST_FILE: Final = "tests/cluster/api/test_rules.py"
_COLLECTED = re.compile(r"^(\d+)(?:/\d+)? tests? collected", re.MULTILINE)


def places(schema: Any) -> int:
    """How often a CEL rule stands in a schema: one rule may guard several fields."""
    if isinstance(schema, dict):
        return len(schema.get(RULES, ())) + sum(places(value) for value in schema.values())
    return sum(places(value) for value in schema) if isinstance(schema, list) else 0


def collect(*arguments: str) -> list[str]:
    """Lines of what pytest would run. Raises RuntimeError when the tests cannot be collected."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}: {result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout.splitlines()


def count_tests(tier: str) -> int:
    """Tests of one tier; each case of a parametrized test counts."""
    found = _COLLECTED.search("\n".join(collect("-m", tier)))
    assert found is not None, "pytest says how many tests it collected"
    return int(found[1])


def image(figures: Figures) -> None:
    """The operator's image as a registry holds it, built where it is not."""
    settings = from_environment()
    images.build(settings, "operator")
    figures.add("operator_image", images.size_megabytes(settings, "operator"), "MB", IMAGE_GOAL)


def tested_rules(figures: Figures) -> None:
    """Rules of the CRD, and those that a real API server is seen to accept and to reject by."""
    known = {code for code, _, _ in rules()}
    figures.add("cel_rules", len(known), "rules")
    figures.add("cel_rule_places", places(crd()), "places")
    tests = Counter(line.split("::")[1].partition("[")[0] for line in collect(TEST_FILE) if line.startswith(TEST_FILE))
    cases = len(known & {case.code for case in RULE_CASES})
    for kind, test in (("accept", "accepts_what_a_rule_allows"), ("reject", "rejects_what_a_rule_forbids")):
        covered = min(cases, tests[f"test_the_api_server_{test}"])
        figures.add(f"cel_rules_with_{kind}_test", covered, "rules", len(known), "higher")


def main() -> None:
    """Counts and prints."""
    figures = Figures("sizes")
    image(figures)
    figures.add("crd", len(crd_yaml().encode()), "bytes", CRD_GOAL)
    tested_rules(figures)
    for tier in TIERS:
        figures.add(f"tests_{tier}", count_tests(tier), "tests")
    print(f"written to {figures.write()}")


if __name__ == "__main__":
    main()
