"""Cases of the rules of operations and pod templates."""

from __future__ import annotations

from typing import Final

from tests.rule_case import RuleCase, objective, template

OPERATION_CASES: Final = (
    RuleCase(
        "own-claim-cpu",
        {"placement": {"pool": "a100-80gb", "allocation": "ResourceClaim"}},
        {"placement": {"allocation": "ResourceClaim"}},
        "pool cpu has no accelerators to claim",
    ),
    RuleCase(
        "own-queue-name",
        {"placement": {"queue": {"name": "team-a"}}},
        {"placement": {"queue": {"name": "Team A"}}},
        "Team A names no LocalQueue",
    ),
    RuleCase(
        "own-queue-priorityClass",
        {"placement": {"queue": {"name": "team-a", "priorityClass": "high"}}},
        {"placement": {"queue": {"name": "team-a", "priorityClass": "-high"}}},
        "-high names no WorkloadPriorityClass",
    ),
    RuleCase(
        "own-pool-name", {"placement": {"pool": "a100-80gb"}}, {"placement": {"pool": "A100"}}, "A100 is not a pool"
    ),
    RuleCase(
        "own-scaling-range",
        {"scaling": {"minReplicas": 2, "maxReplicas": 2}},
        {"scaling": {"minReplicas": 3, "maxReplicas": 2}},
        "minReplicas 3 is above maxReplicas 2",
    ),
    RuleCase(
        "own-objectives-window",
        {"objectives": {"window": "10s"}},
        {"objectives": {"window": "9s"}},
        "9s is no window",
    ),
    RuleCase(
        "own-percentiles-p50-p90", objective(p50="1s", p90="2s"), objective(p50="2s", p90="1s"), "p50 2s is above"
    ),
    RuleCase(
        "own-percentiles-p90-p99", objective(p90="1s", p99="2s"), objective(p90="2s", p99="1s"), "p90 2s is above"
    ),
    RuleCase(
        "own-percentiles-p50-p99", objective(p50="1s", p99="2s"), objective(p50="2s", p99="1s"), "p50 2s is above"
    ),
    RuleCase(
        "own-delay-bounds",
        {"tuning": {"bounds": {"maxQueueDelay": {"min": "1ms", "max": "1ms"}}}},
        {"tuning": {"bounds": {"maxQueueDelay": {"min": "1s", "max": "2ms"}}}},
        "min 1s is above max 2ms",
    ),
    RuleCase(
        "own-instances-bounds",
        {"tuning": {"bounds": {"engineInstances": {"min": 2, "max": 2}}}},
        {"tuning": {"bounds": {"engineInstances": {"min": 3, "max": 2}}}},
        "min 3 is above max 2",
    ),
    RuleCase(
        "own-openai-timeout",
        {"service": {"openAI": {"requestTimeout": "1s"}}},
        {"service": {"openAI": {"requestTimeout": "500ms"}}},
        "500ms is no time to answer in",
    ),
    RuleCase(
        "own-openai-size",
        {"service": {"openAI": {"maxRequestSize": "64Mi"}}},
        {"service": {"openAI": {"maxRequestSize": "1Gi"}}},
        "1Gi is no size for requests",
    ),
    RuleCase("own-drain-timeout", {"drain": {"timeout": "24h"}}, {"drain": {"timeout": "25h"}}, "25h is too long"),
)

TEMPLATE_CASES: Final = (
    RuleCase(
        "own-template-labels",
        template(labels={"team": "chat"}),
        template(labels={"app.kubernetes.io/name": "x"}),
        "finds its pods by these labels",
    ),
    RuleCase(
        "own-label-values",
        template(labels={"example.com/team": "chat-1_a.b", "empty": ""}),
        template(labels={"team": "chat and code"}),
        "no such label",
    ),
    RuleCase(
        "own-annotation-keys",
        template(annotations={"example.com/note": "anything, at all"}),
        template(annotations={"triton-llm.dev/applied": "0"}),
        "no such annotation",
    ),
    RuleCase(
        "own-mount-volume",
        template(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        template(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "w", "mountPath": "/v"}]),
        "entry of the same name",
    ),
    RuleCase(
        "own-mount-path",
        template(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "v", "mountPath": "/modelsof"}]),
        template(volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "v", "mountPath": "/models/x"}]),
        "/models/x cannot be mounted over",
    ),
    RuleCase(
        "own-accelerator-requests",
        template(resources={"requests": {"cpu": "1"}}),
        template(resources={"requests": {"nvidia.com/gpu": "1"}}),
        "remove nvidia.com/",
    ),
    RuleCase(
        "own-accelerator-limits",
        template(resources={"limits": {"cpu": 2}}),
        template(resources={"limits": {"nvidia.com/gpu": 1}}),
        "remove nvidia.com/",
    ),
    RuleCase(
        "own-request-above-limit",
        template(resources={"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"cpu": "2000m", "memory": "1100Mi"}}),
        template(resources={"requests": {"cpu": 1, "memory": "2Gi"}, "limits": {"cpu": 1, "memory": "2000Mi"}}),
        "the request of memory is more than its limit",
    ),
    RuleCase(
        "own-quantity",
        template(resources={"requests": {"cpu": 1, "memory": "1.5Gi"}}),
        template(resources={"requests": {"memory": "1GB"}}),
        "1GB is not a quantity",
    ),
    RuleCase(
        "own-env-name",
        template(env=[{"name": "A_1", "value": "x"}]),
        template(env=[{"name": "1A", "value": "x"}]),
        "1A cannot name a variable",
    ),
    RuleCase(
        "own-env-owned",
        template(env=[{"name": "HF_HOME", "value": "/v"}]),
        template(env=[{"name": "TRITON_TOKEN", "value": "x"}]),
        "the operator sets TRITON_TOKEN itself",
    ),
    RuleCase(
        "own-env-value",
        template(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        template(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        "not both",
    ),
    RuleCase(
        "own-env-once",
        template(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]),
        template(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        "each environment variable may appear once",
    ),
)
