"""Why a model's files do not come: the same cause in the status, in an Event and in an exit code."""

from __future__ import annotations

from collections.abc import Sequence

from tests.e2e.main_job.kube import Service
from tests.e2e.main_job.waiting import eventually

REASON = "ModelSourceFailed"


def told(service: Service, reason: str, seconds: float = 60) -> str:
    """The message of the condition Ready, once it is false for `reason`."""

    def message() -> str:
        ready = service.condition("Ready")
        return str(ready["message"]) if (ready.get("status"), ready.get("reason")) == ("False", reason) else ""

    return eventually(message, f"{service.name}: {reason}", seconds)


def assert_cause(service: Service, code: int, words: Sequence[str]) -> None:
    """The first failure that the status tells has all `words`, and the weights step ended with `code`.

    What the status said is not what an Event has to say: another try may fail in other words.
    """

    def names(message: str) -> bool:
        return all(word in message for word in words)

    message = told(service, REASON, 90)
    assert names(message), message
    assert service.status()["summary"] == REASON
    eventually(lambda: any(map(names, _events(service))), "an Event names the cause too", 60)
    assert code in _exit_codes(service)


def _events(service: Service) -> list[str]:
    """Messages of the warnings about the source."""
    said = service.kube.list("events", service.namespace)
    mine = [one for one in said if one["involvedObject"].get("name") == service.name and one["type"] == "Warning"]
    return [one["message"] for one in mine if one["reason"] == REASON]


def _exit_codes(service: Service) -> list[int]:
    """How the containers of its pods that bring or keep the weights ended last."""
    found = []
    for pod in service.pods():
        for one in pod["status"].get("initContainerStatuses", ()):
            ends = (one.get("state", {}).get("terminated"), one.get("lastState", {}).get("terminated"))
            found += [end["exitCode"] for end in ends if end and one["name"].startswith("weights")]
    return found
