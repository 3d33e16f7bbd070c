"""Every service of the goldens, for every image that takes it: read by Triton's own message and by its core's rules."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from llmservice.repository.errors import RenderError
from llmservice.repository.images import serving_images
from llmservice.repository.lint import Severity, lint_pbtxt
from tests.unit.repository.cases import CASES, STOCK_CASES, Case

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", [*CASES, *STOCK_CASES], ids=lambda case: case.name)
def test_every_rendered_configuration_is_taken(case: Case) -> None:
    texts: set[str] = set()
    for image in serving_images():
        with suppress(RenderError):
            files = replace(case, triton=image.triton).render().files
            texts |= {text for path, text in files.items() if path.endswith("config.pbtxt")}
    assert texts
    for text in texts:
        assert [found for found in lint_pbtxt(text) if found.severity is Severity.ERROR] == []
