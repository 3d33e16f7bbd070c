"""What the API server answers when it does not do what it was asked, one type per reaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class KubeError(Exception):
    """An answer of the API server that is not success.

    `status` is the HTTP status (0 when none came), `reason` the machine word of the `Status` object, `message` its
    text, `details` its `details` (causes with field paths, name and kind of the object).
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}


class NotFound(KubeError):  # noqa: N818 - the API server's own reason
    """404: the object, or the namespace it should live in, is not there."""


class NotServed(NotFound):
    """404: the API server does not know the resource (a CRD that is not installed)."""


class Conflict(KubeError):  # noqa: N818
    """409: another writer was first; read again and decide again."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name is there."""


class Forbidden(KubeError):  # noqa: N818
    """401 or 403: the operator's account may not do this, or a quota or an admission rule refuses it."""


class NamespaceTerminating(Forbidden):
    """403: the namespace is being deleted, nothing can be created in it; stop quietly."""


class Invalid(KubeError):  # noqa: N818
    """400 or 422: the object is wrong; the same request will never succeed."""


class TooManyRequests(KubeError):  # noqa: N818
    """429 after the client's own patience; `retry_after` in seconds is what the server asked for last."""

    def __init__(self, message: str, *, retry_after: float = 1.0, **rest: Any) -> None:
        super().__init__(message, **{"status": 429, "reason": "TooManyRequests", **rest})
        self.retry_after = retry_after


class Unavailable(KubeError):  # noqa: N818
    """5xx, a timeout or no connection, after the client's own patience.

    `may_have_happened` is False when the request cannot have reached the API server.
    """

    def __init__(self, message: str, *, may_have_happened: bool = True, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.may_have_happened = may_have_happened


def from_status(
    http_status: int, body: Mapping[str, Any], *, text: str = "", retry_after: float | None = None
) -> KubeError:
    """The error for an HTTP answer; `body` is its `Status` object, empty when the body was something else."""
    reason = str(body.get("reason") or "")
    details = body.get("details") or {}
    message = str(body.get("message") or text or f"the API server answered {http_status}")
    kind = _kind(http_status, reason, message, details, is_status=bool(body))
    if kind is TooManyRequests:
        wait = retry_after if retry_after is not None else float(details.get("retryAfterSeconds") or 1.0)
        return TooManyRequests(message, retry_after=wait, details=details)
    return kind(message, status=http_status, reason=reason, details=details)


def _kind(
    http_status: int, reason: str, message: str, details: Mapping[str, Any], *, is_status: bool
) -> type[KubeError]:
    causes = {str(cause.get("reason")) for cause in details.get("causes") or ()}
    if http_status == 403 and "NamespaceTerminating" in causes:
        return NamespaceTerminating
    if http_status == 404 and not (is_status and details.get("name")):
        return NotServed  # an unknown path is answered in plain text, or by a Status that names no object
    if http_status == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if http_status == 500 and "field not declared in schema" in message:
        return Invalid  # an unknown field in a server-side apply is reported as an internal error
    if http_status >= 500:
        return Unavailable
    return _BY_STATUS.get(http_status, KubeError)


_BY_STATUS: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    415: Invalid,
    422: Invalid,
    429: TooManyRequests,
}
