"""Labels by which Kueue holds pods back until their queue admits them.

Kueue gates every pod of a Deployment by itself: a Deployment names the queue in its own labels, which Kueue's webhook
copies to the pod template (kueue: docs "Run Deployment", pkg/controller/jobs/deployment). Both are written here, so
that the webhook changes nothing of what the operator applied. The queue of a Deployment with ready pods may not change:
each revision has its own Deployment, and another queue is another revision.
"""

from __future__ import annotations

from typing import Final

from llmservice.api.service import LLMService

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"


def queue_labels(service: LLMService) -> dict[str, str]:
    """Of the Deployment and of its pods; empty where no queue is named."""
    queue = service.spec.placement.queue
    if queue is None:
        return {}
    return {QUEUE_LABEL: queue.name} | ({PRIORITY_LABEL: queue.priority_class} if queue.priority_class else {})
