"""Which live revision already is what a service asks for: it is kept as it is (docs/decisions/0003)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from llmservice.api.knobs import SLOT_LOOKAHEAD
from llmservice.changes.classify import needs_revision
from llmservice.changes.inputs import DEFAULT_IMAGE, Inputs, from_annotation
from llmservice.repository.layout import CONFIG_FILE
from llmservice.repository.proto import to_text
from llmservice.repository.render import Repository, Role
from llmservice.workload.keeper import revision_of_keeper, template_field
from llmservice.workload.manifest import Manifest
from llmservice.workload.names import INPUTS_ANNOTATION, LIVE_INPUTS_ANNOTATION, MANAGED_BY
from llmservice.workload.owned_part import owned_part
from llmservice.workload.revision import LIVE_PARAMETERS

SEQUENCES: Final = "max_sequences"


@dataclass(frozen=True)
class LiveRevision:
    """A revision as it stands: its keeper and, unless somebody deleted it, its ConfigMap."""

    keeper: Manifest
    config_map: Manifest | None = None

    @property
    def revision(self) -> str:
        """The revision's name; empty for an object without the label."""
        return revision_of_keeper(self.keeper)

    @property
    def asked(self) -> int:
        """Replicas that are asked of it."""
        return int(self.keeper["spec"].get("replicas", 1))

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted, or is no revision at all."""
        return not self.revision or "deletionTimestamp" in self.keeper["metadata"]

    @property
    def inputs(self) -> Inputs | None:
        """What it was rendered from; None for an object that does not say."""
        text = self.keeper["metadata"].get("annotations", {}).get(INPUTS_ANNOTATION)
        return None if text is None else from_annotation(text)

    @property
    def template(self) -> Manifest:
        """Its pod template, or that of its groups, as it was applied."""
        field = template_field(self.keeper)
        part = owned_part(self.keeper, MANAGED_BY) or {}
        template: Manifest = part.get("spec", {}).get(field) or self.keeper["spec"][field]
        return template


def pinned(inputs: Inputs, live: Sequence[LiveRevision]) -> LiveRevision | None:
    """The newest live revision whose pods can become what `inputs` ask for without being replaced; None: a new one."""
    candidates = [
        revision
        for revision in live
        if not revision.leaving and revision.inputs is not None and not needs_revision(revision.inputs, inputs)
    ]
    return max(candidates, key=lambda found: found.keeper["metadata"].get("creationTimestamp") or "", default=None)


def sequences_of(live: LiveRevision) -> int | None:
    """Sequences that one engine of the revision takes at once; None where its ConfigMap does not say."""
    stored = _stored_repository(live)
    if stored is None or not stored.has_gate:
        return None
    engine = stored.config(Role.ENGINE)
    return int(engine.parameters[SEQUENCES].string_value) if SEQUENCES in engine.parameters else None


def kept_repository(live: LiveRevision, rendered: Repository, live_inputs: str) -> Repository:
    """The repository of a kept revision: the engine's configuration as it was, except what changes live.

    Its pods run the gate and engine code of the operator that made them. So their configuration is not written anew
    by this operator's renderer: only when a knob or a gate field really changed do the new values go in. A ConfigMap
    that is lost, or that somebody edited (the edited key has another owner), is rendered again.
    """
    stored = _stored_repository(live)
    if live.config_map is None or stored is None:
        return rendered
    if live.config_map["metadata"].get("annotations", {}).get(LIVE_INPUTS_ANNOTATION) == live_inputs:
        return stored
    if not (stored.has_gate and rendered.has_gate):
        return stored
    gate, engine = stored.config(Role.GATE), stored.config(Role.ENGINE)
    gate.dynamic_batching.CopyFrom(rendered.config(Role.GATE).dynamic_batching)
    # The sizes fit today's capacity plan; these pods have the batch size of the plan they were made by.
    sizes = [size for size in gate.dynamic_batching.preferred_batch_size if size <= gate.max_batch_size]
    gate.dynamic_batching.preferred_batch_size[:] = sizes
    for old, new in zip(engine.instance_group, rendered.config(Role.ENGINE).instance_group, strict=False):
        old.count = new.count
    _bring_slots(engine, rendered.config(Role.ENGINE))
    changed = {f"{config.name}/{CONFIG_FILE}": to_text(config) for config in (gate, engine)}
    return Repository(files={**stored.files, **changed}, models=stored.models)


def _stored_repository(live: LiveRevision) -> Repository | None:
    """The repository in its ConfigMap; None where that is lost, or was edited by somebody."""
    if live.config_map is None:
        return None
    try:
        return Repository.from_config_map_data((owned_part(live.config_map, MANAGED_BY) or live.config_map)["data"])
    except (ValueError, KeyError):
        return None


def _bring_slots(engine: Any, rendered: Any) -> None:
    """Slots change live, up to what the sequences of the kept revision can use."""
    for name in LIVE_PARAMETERS:
        if name not in engine.parameters or name not in rendered.parameters:
            continue
        wanted = int(rendered.parameters[name].string_value)
        if SEQUENCES in engine.parameters:
            wanted = min(wanted, int(engine.parameters[SEQUENCES].string_value) + SLOT_LOOKAHEAD)
        engine.parameters[name].string_value = str(wanted)


def with_kept_image(inputs: Inputs, live: LiveRevision) -> Inputs:
    """`inputs` with the default image that the kept pods really run, so that the difference stays visible."""
    image = (live.inputs or {}).get(DEFAULT_IMAGE)
    return inputs if image is None or DEFAULT_IMAGE not in inputs else {**inputs, DEFAULT_IMAGE: image}
