"""The Secret with the token of Triton's restricted APIs."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from typing import Final

from llmservice.api.service import GROUP, LLMService
from llmservice.workload.manifest import Manifest, manifest
from llmservice.workload.names import TOKEN_KEY, secret_name

SECRET_TYPE: Final = f"{GROUP}/token"
"""A type of our own. The API server never changes a Secret's type, so an apply over somebody else's Secret of this
name is refused: the operator cannot read Secrets, and this is how it takes none over."""


def token(operator_key: bytes, service: LLMService) -> str:
    """The token of `service`: HMAC-SHA256 of namespace, name and uid under the operator's key, in hex.

    Anyone with the operator's key can make it again, so the operator never reads a Secret; a service that is deleted
    and made again has another uid and another token.
    """
    metadata = service.metadata
    message = "/".join((metadata.namespace, metadata.name, metadata.uid))
    return hmac.new(operator_key, message.encode(), hashlib.sha256).hexdigest()


def build_secret(service: LLMService, operator_key: bytes) -> Manifest:
    """The Secret. `data`, not `stringData`: the latter is write-only, so its owner could never remove a key again."""
    built = manifest(service, "v1", "Secret", secret_name(service.metadata.name))
    built["type"] = SECRET_TYPE
    built["data"] = {TOKEN_KEY: b64encode(token(operator_key, service).encode()).decode()}
    return built
