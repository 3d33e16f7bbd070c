"""The entry of a worker: a pod that holds a part of an engine over several nodes. Triton runs in the leader only.

Started as `python3 -m llmvllm.worker` in the engine's version folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final

from llmserving.parameters import Parameters
from llmvllm.environment import prepare
from llmvllm.options import EngineOptions

PARAMETERS: Final = Path("parameters.json")


def main() -> int:
    """Runs until the engine ends. Its end is an error: the group is then started again as a whole."""
    options = EngineOptions.from_parameters(Parameters(json.loads(PARAMETERS.read_text(encoding="utf-8"))))
    prepare(options, os.environ)
    from llmvllm.part import work  # imports vLLM

    work(options)
    return 1


if __name__ == "__main__":
    sys.exit(main())
