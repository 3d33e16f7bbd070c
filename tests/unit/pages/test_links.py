"""The project's pages: every link between them leads somewhere, and a page leads to every decision."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    page
    for folder in (".", "docs", "docs/decisions", "cluster", "benchmarks", "examples", "demo")
    for page in (ROOT / folder).glob("*.md")
)
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
LINK = re.compile(r"\[[^\]]*\]\(\s*(?P<target>[^)\s]+)\s*\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@cache
def links(page: Path) -> list[tuple[Path, str]]:
    """Files of the project that the page links, each with the heading it means; empty for none."""
    targets = [found["target"] for found in LINK.finditer(CODE.sub("", page.read_text()))]
    parts = [target.partition("#") for target in targets if "://" not in target]
    return [((page.parent / file).resolve() if file else page, heading) for file, _, heading in parts]


@cache
def headings(page: Path) -> set[str]:
    """The page's headings as GitHub writes them into links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, heading in links(page):
        assert target.exists(), f"{target.relative_to(ROOT)} is not there"
        assert not heading or heading in headings(target), f"{target.relative_to(ROOT)} has no heading {heading}"


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.stem)
def test_a_page_leads_to_every_decision(decision: Path) -> None:
    assert any(decision in dict(links(page)) for page in PAGES if page not in DECISIONS)
