"""How property tests draw: at random on a person's machine, the same every time in continuous integration.

Time limits of single examples are left out: a busy machine would fail them.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("project")
