"""`llmservice plan`: what fits where, as a table and a bar, without a cluster."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llmservice.api.fleet import FleetDefaults
from llmservice.api.plan import CapacityPlan, MemoryUse
from llmservice.api.service import LLMService
from llmservice.api.validation import validate
from llmservice.capacity.architecture import Model
from llmservice.capacity.plan import plan
from llmservice.capacity.pools import with_built_in_pools
from llmservice.capacity.quantity import format_gib
from llmservice.cli.documents import Document, fail, services_or_fail
from llmservice.cli.model_files import UnreadableModelError, read_model
from llmservice.process.settings import StartupError, load_fleet

BAR_WIDTH: Final = 60
NOT_KNOWN: Final = "not known"
_USES: Final = (
    # field of MemoryUse, in words, style
    ("weights", "weights", "blue"),
    ("adapters", "adapters", "blue"),
    ("draft", "proposing model", "blue"),
    ("context", "CUDA context", "magenta"),
    ("communication", "communication", "magenta"),
    ("activations", "activations", "yellow"),
    ("graphs", "graphs and workspaces", "yellow"),
    ("reserve", "allocator reserve", "red"),
    ("kv_cache", "KV cache", "green"),
    ("outside", "left outside memoryPercent", "bright_black"),
)


def plan_files(file: Path, *, model_path: Path | None, fleet_file: Path | None, as_json: bool) -> int:
    """Prints the plan of every service in `file`. Returns 0 where all fit or nothing is known, 1 where one does not."""
    try:
        fleet = with_built_in_pools(load_fleet(fleet_file))
        model = read_model(model_path) if model_path else None
    except (StartupError, UnreadableModelError) as error:
        raise fail(str(error)) from error
    plans = [(document.label, _plan(document, fleet, model)) for document in services_or_fail(file)]
    if as_json:
        described = [as_dict(found) for _, found in plans]
        # One service is the usual file, and its fields are then at the top.
        print(json.dumps(described[0] if len(described) == 1 else described, indent=2))  # noqa: T201
    else:
        console = Console(highlight=False)
        for label, found in plans:
            show(console, label, found)
    return int(any(found.fits is False for _, found in plans))


def _plan(document: Document, fleet: FleetDefaults, model: Model | None) -> CapacityPlan:
    errors = validate(document.manifest).errors
    if errors:
        raise fail(f"{document.label}: {' '.join(map(str, errors[:3]))}")
    try:
        service = LLMService.parse(document.manifest)
    except ValidationError as error:
        raise fail(f"{document.label}: {error}") from error
    path = service.spec.model.source.host_path
    if model is None and path and Path(path.path).exists():
        try:
            model = read_model(Path(path.path))
        except UnreadableModelError as error:
            raise fail(f"{document.label}: spec.model.source.hostPath: {error}") from error
    return plan(service, fleet, model)


def as_dict(found: CapacityPlan) -> dict[str, Any]:
    """The plan as JSON shows it: camelCase, bytes as numbers; what is not known is null."""
    use = found.memory
    modelled = bool(found.kv_bytes_per_token)  # else the model is not known

    def fitted(value: Any) -> Any:
        return value if modelled and use else None  # it follows from model and memory

    return {
        "fits": found.fits,
        "reason": found.reason,
        "model": found.model,
        "pool": found.pool,
        "accelerator": found.accelerator,
        "acceleratorsPerReplica": found.accelerators_per_replica,
        "nodesPerReplica": found.nodes,
        "weights": {
            "bytes": found.weights_bytes if modelled else None,
            "bytesPerAccelerator": use.weights if use else None,
            "quantization": found.quantization,
            "dtype": found.dtype,
        },
        "kvCache": {
            "dtype": found.kv_dtype,
            "bytesPerToken": found.kv_bytes_per_token if modelled else None,
            "bytesPerAccelerator": use.kv_cache if use else None,
            "tokens": fitted(found.kv_tokens),
            "blocks": fitted(found.kv_blocks),
        },
        "memory": {_camel(name): size for name, size in asdict(use).items()} if use else None,
        "usableBytes": fitted(found.usable_bytes),
        "maxLength": found.max_length or None,
        "maxSequences": found.max_sequences,
        "fittingSequences": fitted({"length": found.planned_length, "sequences": found.fitting_sequences}),
        "sequencesByLength": fitted([asdict(item) for item in found.sequences_by_length]),
        "instances": fitted(found.instances),
        "reload": fitted({"fits": found.reload_fits, "memoryPercent": found.reload_percent}),
        "gains": [
            {
                "words": str(gain),
                "field": gain.field_path,
                "value": gain.value,
                "before": gain.before,
                "after": gain.after,
            }
            for gain in found.gains
        ],
        "smallestPool": found.smallest_pool or None,
        "problems": [
            {"field": item.field_path, "message": item.message, "remedy": item.remedy} for item in found.problems
        ],
        "remedies": list(found.remedies),
    }


def show(console: Console, label: str, found: CapacityPlan) -> None:
    """Prints one plan for people."""
    word, style = {True: ("fits", "green"), False: ("does not fit", "red"), None: ("not known", "yellow")}[found.fits]
    console.print(Text.assemble((label, "bold"), "  ", (word, f"bold {style}")))
    console.print(found.reason)
    if found.memory:
        console.print(bar(found.memory))
        console.print(_uses(found.memory))
    console.print(_figures(found))
    for title, lines in (
        ("What a change would buy", tuple(f"{gain}  ({gain.field_path}: {gain.value})" for gain in found.gains)),
        ("What to write instead", found.remedies),
    ):
        if lines:
            console.print(Text(title, style="bold"))
            for line in lines:
                console.print(Text(f"  {line}"))
    console.print()


def bar(use: MemoryUse) -> Text:
    """The accelerator's memory as one line; every use that is there gets at least one cell."""
    sizes = [(getattr(use, name), style) for name, _, style in _USES]
    whole = max(1, sum(size for size, _ in sizes))
    line = Text()
    for size, style in sizes:
        cells = max(1, round(size * BAR_WIDTH / whole)) if size else 0
        line.append("█" * cells, style=style)
    return line


def _uses(use: MemoryUse) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="left")
    table.add_column(justify="right")
    for name, words, style in _USES:
        if size := getattr(use, name):
            table.add_row(Text.assemble(("█ ", style), words), format_gib(size))
    return table


def _figures(found: CapacityPlan) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for words, value in _rows(found):
        table.add_row(Text(words, style="bold"), value)
    return table


def _rows(found: CapacityPlan) -> list[tuple[str, str]]:
    place = (
        found.accelerator
        if not found.accelerators_per_replica
        else (f"{found.accelerators_per_replica} x {found.accelerator}")
    )
    place = (
        place if found.nodes == 1 else f"{found.nodes} nodes with {found.accelerators_per_pod} x {found.accelerator}"
    )
    rows = [("Model", found.model), ("Pool", f"{found.pool} ({place})")]
    if not found.kv_bytes_per_token:
        return [*rows, ("maxSequences", str(found.max_sequences))]
    lengths = ", ".join(f"{item.sequences} of {item.length:,}" for item in found.sequences_by_length)
    reload = f"needs memoryPercent {found.reload_percent} or less" if found.reload_percent else "does not fit"
    token = f"{found.kv_bytes_per_token:,} bytes ({found.kv_dtype})"
    fitting = f"{found.fitting_sequences} of {found.planned_length:,} tokens fit"
    known = found.memory is not None
    rows += [
        ("Weights", f"{format_gib(found.weights_bytes)} in all, {found.quantization}, computed in {found.dtype}"),
        ("KV cache", f"{found.kv_tokens:,} tokens of {token}" if known else f"{NOT_KNOWN}; a token takes {token}"),
        ("Sequences at once", f"{lengths} tokens" if known else NOT_KNOWN),
        ("maxSequences", f"{found.max_sequences} ({fitting if known else f'how many fit is {NOT_KNOWN}'})"),
        ("Engine instances", str(found.instances) if known else NOT_KNOWN),
        ("Background reload", ("fits" if found.reload_fits else reload) if known else NOT_KNOWN),
    ]
    return [*rows, ("Smallest pool", found.smallest_pool)] if found.smallest_pool else rows


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
