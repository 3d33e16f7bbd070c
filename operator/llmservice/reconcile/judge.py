"""Judge: the conditions and the phase, as a row of small pure functions over one state."""

from __future__ import annotations

from dataclasses import dataclass

from llmservice.api.operations import TuningMode
from llmservice.api.reasons import ConditionType, Reason
from llmservice.api.status import ConditionStatus, Phase
from llmservice.diagnose.chain import pod_finding, service_finding
from llmservice.diagnose.finding import Evidence, Finding
from llmservice.diagnose.keepers import deployment_finding
from llmservice.diagnose.pod import Pod
from llmservice.kube import resources
from llmservice.reconcile.conditions import Judgement, false, read_conditions, true, unknown
from llmservice.reconcile.decide import Decision
from llmservice.reconcile.groups import group_findings
from llmservice.reconcile.intent import Blocked, Intent
from llmservice.reconcile.tuning_seen import Seen
from llmservice.reconcile.world import World


@dataclass(frozen=True)
class State:
    """What the conditions are judged from.

    `finding` is the one cause to name: what blocks the pass, else what keeps pods from serving. `ready_current` counts
    ready replicas of the revision that the spec asks for.
    """

    world: World
    intent: Intent | Blocked
    decision: Decision
    finding: Finding | None
    wanted: int
    ready: int
    ready_current: int
    existing: int
    tuned: Seen | None = None

    @classmethod
    def of(cls, world: World, intent: Intent | Blocked, decision: Decision, tuned: Seen | None = None) -> State:
        """The state of one pass."""
        current = intent.workload.revision if isinstance(intent, Intent) else None
        alive = [pod for pod in world.pods if pod.alive]
        ready = [pod for pod in alive if pod.ready]
        return cls(
            world=world,
            intent=intent,
            decision=decision,
            finding=decision.blocked or _pods_finding(world, intent, current),
            wanted=_wanted(world, intent),
            ready=len(ready),
            ready_current=len([pod for pod in ready if current in (None, pod.revision)]),
            existing=len(alive),
            tuned=tuned,
        )

    @property
    def blocked(self) -> bool:
        """Whether this pass may change nothing until a person acts."""
        return self.decision.blocked is not None

    @property
    def settled(self) -> bool:
        """Whether everything is as the spec asks, and nothing moves."""
        return (
            not self.decision.rolling
            and self.ready_current == self.wanted
            and self.existing == self.wanted
            and not self.decision.deleting
            and not self.decision.live_waiting
            and not self.decision.live_failure
        )


def judge(state: State) -> list[Judgement]:
    """Every condition that can be judged now."""
    return [
        _spec_valid(state),
        _capacity_fits(state),
        _ready(state),
        _progressing(state),
        _degraded(state),
        _signals_trusted(state),
    ]


def phase(state: State) -> Phase:
    """What the service is doing, in one word."""
    if state.decision.deleting:
        return Phase.DELETING
    if state.blocked:
        return Phase.FAILED if state.ready == 0 else Phase.SERVING
    if state.wanted == 0 and state.existing == 0:
        return Phase.IDLE
    if state.ready == 0:
        fault = state.finding is not None and state.finding.fault
        return Phase.PENDING if fault or state.existing == 0 else Phase.STARTING
    if state.decision.rolling or state.decision.live_waiting or state.decision.live_failure:
        return Phase.UPDATING
    return Phase.SERVING if state.settled else Phase.SCALING


def _spec_valid(state: State) -> Judgement:
    kind, intent = ConditionType.SPEC_VALID, state.intent
    if isinstance(intent, Blocked) and intent.condition is kind:
        return false(kind, intent.reason, f"{intent.message} What runs keeps running until the spec is corrected.")
    refused = state.decision.blocked
    if refused is not None and refused.reason is Reason.INVALID_SPEC:  # Kubernetes found what no rule of ours did
        return false(kind, refused.reason, f"{refused.message} What runs keeps running until the spec is corrected.")
    if intent.warnings:
        return true(kind, Reason.ACCEPTED_WITH_WARNINGS, " ".join(intent.warnings))
    return true(kind, Reason.VALID)


def _signals_trusted(state: State) -> Judgement:
    kind, service = ConditionType.SIGNALS_TRUSTED, state.intent.service
    if service is not None and service.spec.tuning.mode is TuningMode.OFF:
        return unknown(kind, message="tuning.mode is Off, so nobody follows the signals")
    if state.tuned is not None:
        return state.tuned.trusted
    last = read_conditions(state.world.status).get(kind)  # what the process before this one found
    if last is not None and last.status is not ConditionStatus.UNKNOWN:
        return Judgement(kind, last.status, last.reason, last.message)
    return unknown(kind, message="there has not been a whole window yet")


def _capacity_fits(state: State) -> Judgement:
    kind, intent = ConditionType.CAPACITY_FITS, state.intent
    if isinstance(intent, Blocked) and intent.condition is kind:
        return false(kind, intent.reason, intent.message)
    if intent.plan is None:
        return unknown(kind, message="the spec has to be valid first")
    if intent.plan.fits is False:
        kept = "What was made when it was judged to fit is kept, scaled and tuned; a new revision would not be made."
        return false(kind, Reason.DOES_NOT_FIT, f"{intent.plan.verdict} {kept}")
    if intent.plan.fits is None:
        return unknown(kind, Reason.UNKNOWN_MODEL, intent.plan.reason or "too little is known of the model to say")
    return true(kind, Reason.FITS, intent.plan.reason)


def _ready(state: State) -> Judgement:
    kind = ConditionType.READY
    if state.decision.deleting:
        return false(kind, Reason.DELETING, "the service is being deleted")
    if state.blocked and state.finding is not None:
        count = "1 replica" if state.ready == 1 else f"{state.ready} replicas"
        kept = f" The last valid spec goes on being served by {count}." if state.ready else ""
        return false(kind, state.finding.reason, state.finding.message + kept)
    if state.wanted == 0:
        return false(kind, Reason.SCALED_TO_ZERO, "no replicas are wanted: raise spec.replicas or spec.scaling")
    if state.ready > 0:
        return true(kind, Reason.SERVING, f"{state.ready} of {state.wanted} replicas serve")
    if state.finding is not None:
        return false(kind, state.finding.reason, state.finding.message)
    return false(kind, Reason.STARTING, "the first replica is being created")


def _progressing(state: State) -> Judgement:
    kind = ConditionType.PROGRESSING
    if state.decision.deleting:
        return true(kind, Reason.DELETING, "children go with the service")
    if state.blocked and state.finding is not None:
        return false(kind, state.finding.reason, "nothing is changed until that is resolved")
    if state.settled:
        return false(kind, Reason.SETTLED, "everything is as the spec asks")
    update = state.decision.rolling or state.decision.live_waiting
    if update:
        return true(kind, Reason.UPDATING, update)
    if state.decision.live_failure:
        return true(kind, Reason.LIVE_CHANGE_FAILED, "a live change is tried again; what ran before keeps serving")
    if state.ready == 0 and state.wanted > 0:
        cause = state.finding
        return true(kind, cause.reason if cause else Reason.STARTING, cause.message if cause else "replicas start")
    return true(kind, Reason.SCALING, f"from {state.existing} replicas, {state.ready} ready, to {state.wanted}")


def _degraded(state: State) -> Judgement:
    kind = ConditionType.DEGRADED
    if state.decision.live_failure:
        return true(kind, Reason.LIVE_CHANGE_FAILED, state.decision.live_failure)
    finding = state.finding
    if finding is not None and (finding.fault or state.blocked):
        return true(kind, finding.reason, finding.message)
    return false(kind, Reason.HEALTHY)


def _pods_finding(world: World, intent: Intent | Blocked, current: str | None) -> Finding | None:
    """The cause to name for the pods: of the wanted revision where it has any, for the others are on their way out."""
    candidates = [pod for pod in world.all_pods if pod.alive] or world.all_pods
    found = [(pod.revision, finding) for pod in candidates if (finding := pod_finding(_evidence(world, pod)))]
    found += group_findings(world)
    findings = [finding for revision, finding in found if revision == current] or [finding for _, finding in found]
    findings += [finding for one in world.of(resources.DEPLOYMENT).values() if (finding := deployment_finding(one))]
    if world.missing_claim and not any(pod.ready for pod in world.pods):
        findings = [finding for finding in findings if finding.reason is not Reason.VOLUME_MISSING]
        text = (
            f"PersistentVolumeClaim {world.missing_claim.name!r} is not there: create it in the service's namespace, "
            f"or correct {world.missing_claim.field_path}"
        )
        findings.append(Finding(Reason.VOLUME_MISSING, text))
    return service_finding(findings, intent.service.spec.placement.pool if intent.service else "", world.pool)


def _evidence(world: World, pod: Pod) -> Evidence:
    name = pod.name
    return Evidence(pod, world.events.get(name, ()), world.logs.get(name, ""), world.weights_logs.get(name, ""))


def _wanted(world: World, intent: Intent | Blocked) -> int:
    if isinstance(intent, Intent):
        return intent.knobs.replicas
    return sum(int(one.get("spec", {}).get("replicas") or 0) for one in world.keepers.values())
