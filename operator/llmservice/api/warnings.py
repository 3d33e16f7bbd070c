"""What is accepted but likely wrong: Triton's silent traps, and fields that do nothing in this version.

CEL rules of a CRD cannot warn. So each rule here becomes a line of a ValidatingAdmissionPolicy with the action Warn,
and the reconciler evaluates the same text for the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from llmservice.api.expressions import ExpressionError, evaluate
from llmservice.api.findings import Finding, from_text


@dataclass(frozen=True)
class WarningRule:
    """One warning. `expression` is CEL over `object`, with defaults filled in, and true where the warning applies.

    `message` is a CEL expression of the text, `what is wrong: what to write instead`. Codes: `trap-…` is what Triton
    or Kubernetes takes silently and gets wrong.
    """

    code: str
    field_path: str
    expression: str
    message: str


def warnings_of(manifest: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The warnings for a manifest with its defaults filled in."""
    return tuple(finding for rule in WARNINGS if (finding := _check(rule, manifest)))


def _check(rule: WarningRule, manifest: Mapping[str, Any]) -> Finding | None:
    variables = {"object": manifest}
    try:
        if not evaluate(rule.expression, variables):
            return None
        return from_text(rule.code, rule.field_path, evaluate(rule.message, variables))
    except ExpressionError:
        return None  # a broken object: the errors say so


_BATCHING = "object.spec.batching"
_SOURCE = "object.spec.model.source"
_ENGINE = "object.spec.engine"
_BUILT = f"has({_ENGINE}.tensorrtllm) && {_ENGINE}.tensorrtllm.runtime == 'Engine'"
_SPLIT = f"{_ENGINE}.parallelism"
_INSTANCES = "object.spec.tuning.bounds.engineInstances"
_LEVELS = f"{_BATCHING}.priorities.levels"

WARNINGS: Final = (
    WarningRule(
        "trap-levels-off",
        "spec.batching.priorities",
        f"{_LEVELS} == 0 && has({_BATCHING}.priorities.default)",
        '"a default level without levels is ignored: write priorities.levels, or remove default"',
    ),
    WarningRule(
        "trap-max-size-per-level",
        "spec.batching.queue.maxSize",
        f"{_LEVELS} > 1 && has({_BATCHING}.queue) && has({_BATCHING}.queue.maxSize)",
        f'"maxSize is of each level, so up to %d times %d requests may wait: divide queue.maxSize by the '
        f'number of levels, or limit levels in queue.levels".format([{_LEVELS}, {_BATCHING}.queue.maxSize])',
    ),
    WarningRule(
        "trap-served-names",
        "spec.model.servedNames",
        "has(object.spec.model.servedNames) && size(object.spec.model.servedNames) > 0 "
        "&& !object.spec.service.openAI.enabled",
        '"only the OpenAI endpoint knows served names, and it is turned off: remove servedNames, or turn it on"',
    ),
    WarningRule(
        "trap-preferred-sizes",
        "spec.batching.preferredBatchSizes",
        f"has({_BATCHING}.preferredBatchSizes) && size({_BATCHING}.preferredBatchSizes) > 0",
        '"preferred batch sizes seldom help, a batch of such a size leaves without waiting for more: remove them '
        'unless a measurement says otherwise"',
    ),
    WarningRule(
        "trap-preferred-below-maximum",
        "spec.batching.preferredBatchSizes",
        f"has({_BATCHING}.preferredBatchSizes) && has({_BATCHING}.maxSequences) "
        f"&& size({_BATCHING}.preferredBatchSizes) > 0 "
        f"&& {_BATCHING}.preferredBatchSizes.all(s, s < {_BATCHING}.maxSequences)",
        f'"with every preferred size below maxSequences, Triton forms batches of odd sizes: add %d, or remove the '
        f'list".format([{_BATCHING}.maxSequences])',
    ),
    WarningRule(
        "trap-preserve-ordering",
        "spec.batching.preserveOrdering",
        f"{_BATCHING}.preserveOrdering",
        '"one long answer holds up all that came after it: remove preserveOrdering unless clients need the order"',
    ),
    WarningRule(
        "trap-delay-continuous",
        "spec.batching.maxQueueDelay",
        f"{_BATCHING}.mode == 'Continuous' && has({_BATCHING}.maxQueueDelay)",
        '"in mode Continuous the delay only groups admissions and often does not bind: remove it, or write mode: '
        'Dynamic where batches matter"',
    ),
    WarningRule(
        "trap-mode-none",
        "spec.batching",
        f"{_BATCHING}.mode == 'None' && (has({_BATCHING}.maxQueueDelay) "
        f"|| (has({_BATCHING}.maxSequences) && {_BATCHING}.maxSequences > 1))",
        '"mode None runs one request at a time, so maxSequences and maxQueueDelay are ignored: remove them, or '
        'choose another mode"',
    ),
    WarningRule(
        "trap-replicas-and-scaling",
        "spec.replicas",
        "has(object.spec.replicas) && object.spec.scaling.maxReplicas > 1",
        '"with replicas set, scaling is left to whoever sets it and spec.scaling is ignored: remove one of them"',
    ),
    WarningRule(
        "trap-instances-bounds",
        "spec.tuning.bounds.engineInstances",
        f"{_INSTANCES}.max > {_INSTANCES}.min && ({_BATCHING}.mode == 'Continuous' || {_ENGINE}.backend != 'torch' "
        f"|| {_SPLIT}.tensor * {_SPLIT}.pipeline > 1)",
        '"the tuner moves the count of engine instances only where batches run to completion, with backend torch on '
        "one accelerator, and here a replica has the fewest: write max: %d, or mode: None, Static or Dynamic with "
        f'backend: torch".format([{_INSTANCES}.min])',
    ),
    WarningRule(
        "trap-instances-vllm",
        "spec.tuning.bounds.engineInstances.min",
        f"{_ENGINE}.backend == 'vllm' && object.spec.placement.pool != 'cpu' "
        f"&& {_INSTANCES}.min * object.spec.kvCache.memoryPercent > 100",
        '"each instance of vLLM takes memoryPercent of the accelerator, and %d of them find no room: write min: 1, or '
        f'kvCache.memoryPercent: %d".format([{_INSTANCES}.min, 95 / {_INSTANCES}.min])',
    ),
    WarningRule(
        "trap-driver-nvidia",
        "spec.engine.driver",
        f"{_ENGINE}.driver == 'Nvidia'",
        '"the stock backend of %s has no gate before it, so no chat template, deadline or OpenAI endpoint, nobody sees '
        "who waits inside, and only replicas are tuned: write driver: Native with backend: vllm, unless you need the "
        f'stock one".format([{_ENGINE}.backend])',
    ),
    WarningRule(
        "trap-nvidia-openai",
        "spec.engine.driver",
        f"{_ENGINE}.driver == 'Nvidia' && (has(object.spec.service.openAI.apiKeysSecret) "
        "|| has(object.spec.service.openAI.tlsSecret) "
        "|| (has(object.spec.model.servedNames) && size(object.spec.model.servedNames) > 0) "
        "|| (has(object.spec.model.tokenizer) && has(object.spec.model.tokenizer.chatTemplate)))",
        '"API keys, TLS, served names and chat templates are for the OpenAI endpoint and the gate, and a stock backend '
        'has neither: remove them, or write driver: Native"',
    ),
    WarningRule(
        "trap-tensor-over-nodes",
        "spec.engine.parallelism",
        f"{_SPLIT}.nodes > 1 && {_SPLIT}.tensor * {_SPLIT}.pipeline / {_SPLIT}.nodes % {_SPLIT}.tensor != 0",
        f'"%d accelerators share each layer over several nodes, and every token crosses their network twice a layer: '
        'write a tensor of at most the accelerators of one node, and a pipeline of at least as many stages as nodes"'
        f".format([{_SPLIT}.tensor])",
    ),
    WarningRule(
        "trap-bls-instances",
        "spec.engine.parameters",
        f"{_BUILT} && has({_ENGINE}.tensorrtllm.engine) && {_ENGINE}.tensorrtllm.engine.chain == 'BLS' "
        f"&& has({_ENGINE}.parameters) && 'bls_instance_count' in {_ENGINE}.parameters "
        f"&& {_ENGINE}.parameters['bls_instance_count'].matches('^[0-9]{{1,4}}$') && has({_BATCHING}.maxSequences) "
        f"&& int({_ENGINE}.parameters['bls_instance_count']) < {_BATCHING}.maxSequences",
        f'"each BLS instance runs one request, so %s instances leave an engine of %d sequences unfilled: remove '
        f"bls_instance_count, or lower maxSequences\".format([{_ENGINE}.parameters['bls_instance_count'], "
        f"{_BATCHING}.maxSequences])",
    ),
    WarningRule(
        "trap-engine-kv-dtype",
        "spec.kvCache.dtype",
        f"object.spec.kvCache.dtype != 'Auto' && {_BUILT}",
        '"an engine keeps the type of cache that it was built with: write kvCache.dtype: Auto, and build it with the '
        'type you want"',
    ),
    WarningRule(
        "trap-tokenizer-path",
        "spec.model.tokenizer.path",
        f"has(object.spec.model.tokenizer) && has(object.spec.model.tokenizer.path) && !({_BUILT})",
        '"only a built engine has its tokenizer in a folder beside it, else it is in the model\'s own: remove path"',
    ),
    WarningRule(
        "trap-unpinned-model",
        "spec.model.source.huggingFace.revision",
        f"has({_SOURCE}.huggingFace) && !{_SOURCE}.huggingFace.revision.matches('^[0-9a-f]{{40}}$')",
        f'"revision %s may move, then replicas serve different weights: write a commit of 40 hexadecimal digits"'
        f".format([{_SOURCE}.huggingFace.revision])",
    ),
    WarningRule(
        "trap-unpinned-image",
        "spec.engine.image",
        "has(object.spec.engine.image) "
        "&& (object.spec.engine.image.endsWith(':latest') "
        "|| !object.spec.engine.image.matches('.*(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]+)$'))",
        '"this image may change under its name: write a version tag or a digest"',
    ),
    WarningRule(
        "trap-cache-unused",
        "spec.model.cache",
        f"has(object.spec.model.cache) && !has({_SOURCE}.huggingFace) && !has({_SOURCE}.s3) && !has({_SOURCE}.gcs)",
        '"only what a hub or a bucket brings is cached, this source is read where it is: remove cache"',
    ),
)
