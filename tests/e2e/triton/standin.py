"""Stand-ins for gate and engine on a real tritonserver: real configuration, no model behind it.

`write` lays a rendered repository out as the init container does, with standin_model.py in the place of gate and
engine. A stock backend becomes the Python one with the stand-in too: the CPU's tritonserver has no other. It tells each
start of an instance by a line in the file `$STARTS` and answers one word; to `hold` it answers
once the file `$RELEASE` exists. The gate exports its series by process, as the real one does. KIND_GPU and KIND_MODEL
become KIND_CPU, so that everything loads without a GPU.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmservice.repository.proto import ModelInstanceGroup, from_text, to_text
from llmservice.repository.render import Repository, RepositoryModel
from llmservice.repository.write import write_repository

STOCK = "stock"
STOCK_BACKENDS = ("vllm", "tensorrtllm")
MOST_INSTANCES = 2
"""Each is a process here, and two show as much as the sixty-four of a BLS model."""
CODE = Path(__file__).with_name("standin_model.py")


def code_folder(root: Path) -> Path:
    """A folder like `model_repository/` whose gate and engines are the stand-in."""
    for code in ("gate", "torch", "vllm", STOCK):
        (root / code).mkdir(parents=True)
        shutil.copyfile(CODE, root / code / "model.py")
    (root / "llmserving").mkdir()
    (root / "llmserving" / "__init__.py").touch()
    return root


def without_gpu(config: Any) -> Any:
    """`config` with its instances on the CPU, few of them, and on a backend that is there."""
    if config.backend in STOCK_BACKENDS:
        config.backend = "python"
    for group in config.instance_group:
        group.kind = ModelInstanceGroup.KIND_CPU
        group.ClearField("gpus")
        group.count = min(MOST_INSTANCES, group.count)
    return config


def write(repository: Repository, folder: Path, code: Path) -> None:
    """Writes `repository` below `folder` with the stand-in's code."""
    changed = {path: text for path, text in repository.files.items() if not path.endswith("config.pbtxt")}
    changed |= {f"{model.name}/config.pbtxt": to_text(config_of(repository, model)) for model in repository.models}
    write_repository(Repository(changed, tuple(map(with_code, repository.models))), folder, code)


def config_of(repository: Repository, model: RepositoryModel) -> Any:
    """The configuration of `model` as it is loaded here."""
    return without_gpu(from_text(repository.files[f"{model.name}/config.pbtxt"]))


def with_code(model: RepositoryModel) -> RepositoryModel:
    """`model` with the stand-in as its code, where the code is not ours."""
    own = model.code in ("gate", "torch", "vllm")
    return model if own else replace(model, code=STOCK, image_code="")


class Starts:
    """Counts starts of instances by model."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()

    def of(self, model: str) -> int:
        return self.file.read_text().splitlines().count(model)
