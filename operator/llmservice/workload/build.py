"""Service + plan + repository + knobs + fleet → everything that must stand in the cluster for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmservice.api.fleet import FleetDefaults
from llmservice.api.knobs import Knobs
from llmservice.api.plan import CapacityPlan
from llmservice.api.service import LLMService
from llmservice.changes.change_class import ChangeClass
from llmservice.changes.fields import rule_of
from llmservice.changes.inputs import Inputs, inputs_of, to_annotation
from llmservice.repository.render import Repository
from llmservice.workload.claims import build_claim_template, is_claimed
from llmservice.workload.config_map import build_config_map
from llmservice.workload.deployment import build_deployment
from llmservice.workload.keeper import keeps_groups
from llmservice.workload.leader_worker_set import build_group_template, build_leader_worker_set
from llmservice.workload.manifest import Manifest, digest
from llmservice.workload.network_policy import build_network_policy
from llmservice.workload.parts import pool_of
from llmservice.workload.pinning import LiveRevision, kept_repository, pinned, with_kept_image
from llmservice.workload.pod import build_pod_template
from llmservice.workload.pod_disruption_budget import build_pod_disruption_budget
from llmservice.workload.pod_monitor import build_pod_monitor
from llmservice.workload.revision import revision_of
from llmservice.workload.secret import build_secret
from llmservice.workload.service import build_service
from llmservice.workload.service_account import build_service_account


@dataclass(frozen=True)
class Workload:
    """What must stand in the cluster for a service.

    `manifests` are in the order in which to apply them, the Deployment or LeaderWorkerSet last. `repository` is what
    the revision's pods run: the rendered one, or that of a kept revision. `kept` says that a live revision was found
    and is left as it is.
    """

    revision: str
    manifests: tuple[Manifest, ...]
    repository: Repository
    kept: bool = False

    @property
    def keeper(self) -> Manifest:
        """The Deployment or LeaderWorkerSet, which keeps the replicas."""
        return self.manifests[-1]

    def manifest(self, kind: str) -> Manifest:
        """The one manifest of `kind`. Raises KeyError where there is none."""
        for manifest in self.manifests:
            if manifest["kind"] == kind:
                return manifest
        raise KeyError(kind)


def build(
    service: LLMService,
    plan: CapacityPlan,
    repository: Repository,
    knobs: Knobs,
    fleet: FleetDefaults,
    *,
    operator_key: bytes,
    live: Sequence[LiveRevision] = (),
) -> Workload:
    """The workload of `service`. `live` are its revisions in the cluster: one that fits is kept as it is.

    What revisions share serves those that leave too, until they are gone. Pure: equal arguments give equal
    manifests. The keeper carries no `replicas` (`with_replicas` sets them). Raises RenderError with the path of a field
    that cannot be built.
    """
    inputs = inputs_of(service, fleet)
    live_inputs = _live_inputs(service, fleet, knobs)
    kept = pinned(inputs, live)
    build_template = build_pod_template if plan.nodes == 1 else build_group_template
    if kept is None:
        revision = revision_of(build_template(service, plan, fleet, ""), repository)
        template = build_template(service, plan, fleet, revision)
        effective = repository
    else:
        revision, template = kept.revision, kept.template
        effective = kept_repository(kept, repository, live_inputs)
        inputs = with_kept_image(inputs, kept)
    groups = plan.nodes > 1 or any(keeps_groups(one.keeper) for one in live)
    made = _manifests(service, plan, fleet, operator_key, revision, template, effective, inputs, live_inputs, groups)
    return Workload(revision=revision, manifests=made, repository=effective, kept=kept is not None)


def repository_with(
    service: LLMService, repository: Repository, knobs: Knobs, fleet: FleetDefaults, live: Sequence[LiveRevision]
) -> Repository:
    """What the revision's pods would run with `knobs`, of which `repository` was rendered; see `build`."""
    kept = pinned(inputs_of(service, fleet), live)
    return repository if kept is None else kept_repository(kept, repository, _live_inputs(service, fleet, knobs))


def _live_inputs(service: LLMService, fleet: FleetDefaults, knobs: Knobs) -> str:
    """What of the spec and the knobs reaches running pods, as a hash."""
    return digest({path: value for path, value in inputs_of(service, fleet, knobs).items() if _is_live(path)})


def _manifests(
    service: LLMService,
    plan: CapacityPlan,
    fleet: FleetDefaults,
    operator_key: bytes,
    revision: str,
    template: Manifest,
    repository: Repository,
    inputs: Inputs,
    live_inputs: str,
    groups: bool,
) -> tuple[Manifest, ...]:
    """In the order in which a pod needs them. `groups`: replicas of this revision or of one that leaves are groups."""
    # vLLM's processes on several nodes trust whoever reaches them.
    optional = [build_network_policy(service, groups=groups)] if fleet.network_policy or groups else []
    optional += [build_pod_monitor(service, fleet)] if fleet.pod_monitor else []
    if is_claimed(service, plan):
        optional.append(build_claim_template(service, pool_of(service, fleet), plan, revision))
    return (
        build_service_account(service),
        build_secret(service, operator_key),
        build_config_map(service, revision, repository.to_config_map_data(), live_inputs),
        build_service(service),
        build_pod_disruption_budget(service),
        *optional,
        build_deployment(service, plan, revision, template, to_annotation(inputs))
        if plan.nodes == 1
        else build_leader_worker_set(service, revision, template, to_annotation(inputs)),
    )


def _is_live(path: str) -> bool:
    """Whether a field reaches running pods through the rendered repository."""
    return rule_of(path).change_class in (ChangeClass.IN_PLACE, ChangeClass.GATE_RELOAD)
