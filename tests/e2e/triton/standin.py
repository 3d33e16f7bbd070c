"""Stand-ins for gate and engine on a real tritonserver: real configuration, no model behind it.

`write` lays a rendered repository out as the init container does, with standin_model.py in the place of gate and
engine. It tells each start of an instance by a line in the file `$STARTS` and answers one word; to `hold` it answers
once the file `$RELEASE` exists. The gate exports its series by process, as the real one does. KIND_GPU and KIND_MODEL
become KIND_CPU, so that everything loads without a GPU.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from llmservice.repository.proto import ModelInstanceGroup, to_text
from llmservice.repository.render import Repository, Role
from llmservice.repository.write import write_repository

CODE = Path(__file__).with_name("standin_model.py")


def code_folder(root: Path) -> Path:
    """A folder like `model_repository/` whose gate and engines are the stand-in."""
    for code in ("gate", "torch", "vllm"):
        (root / code).mkdir(parents=True)
        shutil.copyfile(CODE, root / code / "model.py")
    (root / "llmserving").mkdir()
    (root / "llmserving" / "__init__.py").touch()
    return root


def without_gpu(config: Any) -> Any:
    """`config` with its instances on the CPU."""
    for group in config.instance_group:
        group.kind = ModelInstanceGroup.KIND_CPU
        group.ClearField("gpus")
    return config


def write(repository: Repository, folder: Path, code: Path) -> None:
    """Writes `repository` below `folder` with the stand-in's code."""
    configs = [without_gpu(repository.config(role)) for role in Role]
    files = {f"{config.name}/config.pbtxt": to_text(config) for config in configs}
    write_repository(Repository(files, repository.models), folder, code)


class Starts:
    """Counts starts of instances by model."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()

    def of(self, model: str) -> int:
        return self.file.read_text().splitlines().count(model)
