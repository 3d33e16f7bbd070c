"""`spec.model.source` → the hub or bucket it names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from llmservice.api.model import ModelSource
from llmservice.weights.errors import ExitCode, WeightsError
from llmservice.weights.hub import Hub
from llmservice.weights.listing import Origin


@asynccontextmanager
async def open_origin(
    source: ModelSource, environment: Mapping[str, str], folders: tuple[str, ...] = ()
) -> AsyncIterator[Origin]:
    """The origin of `source`, with `folders` below its top one; credentials are in the environment.

    Raises WeightsError for other sources.
    """
    if source.hugging_face:
        said = source.hugging_face
        token = environment.get("HF_TOKEN")
        hub = Hub.open(said.repo, said.revision, said.endpoint, token, said.file, folders)
        try:
            yield hub
        finally:
            await hub.close()
    elif source.s3:
        from llmservice.weights.bucket import open_s3

        bucket = open_s3(source.s3, environment)
        yield replace(bucket, folders=folders)
    elif source.gcs:
        from llmservice.weights.bucket import open_gcs

        bucket = open_gcs(source.gcs.bucket, source.gcs.prefix, environment.get("GOOGLE_SERVICE_ACCOUNT_KEY"))
        yield replace(bucket, folders=folders)
    else:
        raise WeightsError(
            ExitCode.INVALID_SOURCE, "this source is not fetched over a network: write huggingFace, s3 or gcs"
        )
