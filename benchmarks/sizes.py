"""What is counted, not timed: `python -m benchmarks.sizes`. Image, CRD, rules with their tests, tests by tier."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.figures import ROOT, Figures
from cluster import images
from cluster.settings import from_environment
from llmservice.api.crd import crd, crd_yaml
from llmservice.api.reference import rules
from llmservice.api.schema import RULES
from llmservice.repository.lint import Severity, lint_pbtxt
from llmservice.triton.errors import TritonError
from tests.e2e.repository.loading import load_and_unload, loading_server, renderings
from tests.rule_cases import RULE_CASES
from tests.unit.repository.cases import CASES, STOCK_CASES, Case

TIERS: Final = ("unit", "cluster", "e2e")
IMAGE_GOAL: Final = 250
CRD_GOAL: Final = 256 * 1024
ACCEPT_TEST: Final = "tests/cluster/api/test_rules.py::test_the_api_server_accepts_what_a_rule_allows"
REJECT_TEST: Final = "tests/cluster/api/test_rules.py::test_the_api_server_rejects_what_a_rule_forbids"


def places(schema: Any) -> int:
    """How often a CEL rule stands in a schema: one rule may guard several fields."""
    if isinstance(schema, dict):
        return len(schema.get(RULES, ())) + sum(places(value) for value in schema.values())
    return sum(places(value) for value in schema) if isinstance(schema, list) else 0


class Collected:
    """Counts what pytest would run, as its plugin. Each case of a parametrized test counts."""

    def __init__(self) -> None:
        self.by_tier: Counter[str] = Counter()
        self.by_function: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Pytest tells everything it found here."""
        for item in items:
            self.by_tier.update(tier for tier in TIERS if item.get_closest_marker(tier))
            self.by_function[item.nodeid.partition("[")[0]] += 1


def collect() -> Collected:
    """All tests. Raises RuntimeError when they cannot be collected."""
    collected, said = Collected(), io.StringIO()
    with contextlib.redirect_stdout(said):
        arguments = ["--collect-only", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
        code = pytest.main([*arguments, str(ROOT / "tests")], plugins=[collected])
    if code:
        raise RuntimeError(f"the tests cannot be collected: {said.getvalue()[-2000:]}")
    return collected


def image(figures: Figures) -> None:
    """The operator's image as a registry holds it, built where it is not."""
    settings = from_environment()
    images.build(settings, "operator")
    figures.add("operator_image", images.size_megabytes(settings, "operator"), "MB", IMAGE_GOAL)


def tested_rules(figures: Figures, collected: Collected) -> None:
    """Rules of the CRD, and those that a real API server is seen to accept and to reject by."""
    known = {code for code, _, _ in rules()}
    figures.add("cel_rules", len(known), "rules")
    figures.add("cel_rule_places", places(crd()), "places")
    cases = len(known & {case.code for case in RULE_CASES})
    for kind, test in (("accept", ACCEPT_TEST), ("reject", REJECT_TEST)):
        covered = min(cases, collected.by_function[test])
        figures.add(f"cel_rules_with_{kind}_test", covered, "rules", len(known), "higher")


def repositories(figures: Figures) -> None:
    """The renderer's services times NVIDIA's images: what Triton's message and the rules of its core take.

    A pair that the renderer refuses, with a reason, is none. Then the same is loaded by a real tritonserver, once for
    pairs that render the same text, with a stand-in for what computes.
    """
    alike = renderings((*CASES, *STOCK_CASES))
    accepted = sum(len(pairs) for pairs in alike if is_accepted(pairs[0]))
    rendered = sum(map(len, alike))
    figures.add("rendered_repositories_accepted", accepted, "repositories", rendered, "higher")
    figures.add("rendered_repositories_loaded", asyncio.run(loaded(alike)), "repositories", rendered, "higher")


def is_accepted(case: Case) -> bool:
    """Whether no rule of Triton finds an error in any of its configurations."""
    texts = (text for path, text in case.render().files.items() if path.endswith("config.pbtxt"))
    return not any(found.severity is Severity.ERROR for text in texts for found in lint_pbtxt(text))


async def loaded(alike: list[list[Case]]) -> int:
    """Pairs whose repository a real tritonserver loads as it was rendered; others are told."""
    count = 0
    with tempfile.TemporaryDirectory() as folder, loading_server(Path(folder)) as server:
        for pairs in alike:
            try:
                await load_and_unload(server, pairs[0])
            except (TritonError, AssertionError) as error:
                print(f"{pairs[0].name} for Triton {pairs[0].triton}: {error}")
            else:
                count += len(pairs)
    return count


def main() -> None:
    """Counts and prints."""
    figures = Figures("sizes")
    image(figures)
    repositories(figures)
    figures.add("crd", len(crd_yaml().encode()), "bytes", CRD_GOAL)
    collected = collect()
    tested_rules(figures, collected)
    for tier in TIERS:
        figures.add(f"tests_{tier}", collected.by_tier[tier], "tests")
    print(f"written to {figures.write()}")


if __name__ == "__main__":
    main()
