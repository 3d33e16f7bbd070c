"""Objects below a prefix of a bucket: S3 and what speaks its protocol, and Google Cloud Storage.

`obstore` (the Rust crate object_store) signs, pages and finds credentials: in the environment, from a service account
of the cluster (IRSA, Workload Identity), or from the instance. A bucket has no commits: its state is the digest of its
listing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from obstore.exceptions import (
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import GCSStore, S3Store

from llmservice.api.model import S3Source
from llmservice.weights.errors import BrokenTransferError, ExitCode, WeightsError
from llmservice.weights.listing import Algorithm, Checksum, Listing, RemoteFile, Wanted, credentials_key, of_folders

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

PIECE_BYTES: Final = 1 << 20
STATE_LENGTH: Final = 12
_RETRY: Final[RetryConfig] = {"max_retries": 2, "retry_timeout": timedelta(seconds=30)}
_CLIENT: Final[ClientConfig] = {"connect_timeout": "30s", "timeout": "1h"}
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_IDENTITIES: Final = ("http://169.254.169.254/", "http://169.254.170.2/")
"""Where instances and tasks of AWS tell who they are; asked where there are no keys."""
_MD5 = re.compile(r"^[0-9a-f]{32}$")


@dataclass
class Bucket:
    """One prefix of one bucket. `where` is its address for people, `s3://bucket/prefix`."""

    store: S3Store | GCSStore
    prefix: str
    where: str
    service: str
    credentials: str = ""
    """A digest of the credentials it is read with."""
    folders: tuple[str, ...] = ()
    """Folders below the prefix that are wanted too."""

    @property
    def words(self) -> str:
        """The source in words."""
        return self.where

    @property
    def place(self) -> str:
        """What a moving state is remembered under."""
        return f"{self.base} {self.credentials}{of_folders(self.folders)}"

    @property
    def base(self) -> str:
        """The source without its state."""
        return f"bucket {self.service} {self.where}"

    async def list(self) -> Listing:
        """The files that an engine needs, as they are now."""
        wanted = Wanted(self.where, folders=self.folders)
        below = f"{self.prefix}/" if self.prefix else ""
        try:
            async for page in self.store.list(self.prefix or None):
                for entry in page:
                    etag = str(entry.get("e_tag") or "").strip('"')
                    checksum = Checksum(Algorithm.MD5, etag) if _MD5.match(etag) else None
                    path = entry["path"].removeprefix(below)
                    wanted.add(RemoteFile(path, entry["size"], checksum, etag or str(entry["last_modified"])))
        except (BaseError, OSError, ValueError) as error:
            raise self._cause(error) from error
        files = wanted.chosen()
        said = "\n".join(f"{file.path} {file.size} {file.etag}" for file in files)
        state = hashlib.sha256(said.encode()).hexdigest()[:STATE_LENGTH]
        name = re.sub(r"[^A-Za-z0-9._]+", "-", self.where.partition("://")[2]).strip("-.")
        return Listing(f"{self.base} {state}", name, state, files)

    async def read(self, file: RemoteFile, offset: int) -> AsyncIterator[bytes]:
        """The content of `file` from `offset` on, of the version that was listed."""
        path = f"{self.prefix}/{file.path}" if self.prefix else file.path
        try:
            if offset:
                got = await self.store.get_async(path, options={"range": {"offset": offset}})
            else:
                got = await self.store.get_async(path)
            etag = str(got.meta.get("e_tag") or "").strip('"')
            if etag and file.checksum is not None and etag != file.etag:
                raise BrokenTransferError(
                    ExitCode.CORRUPT, f"{self.where}/{file.path} was replaced while it was fetched"
                )
            async for piece in got.stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)
        except (BaseError, OSError, ValueError) as error:
            raise self._cause(error) from error

    def _cause(self, error: Exception) -> WeightsError:
        said = _root(error)
        status = _status(error)
        text = str(error).lower()
        if any(address in text for address in _IDENTITIES):
            return WeightsError(
                ExitCode.UNAUTHORIZED,
                f"no credentials for {self.where}, and the node gives the pod no identity of its own ({said}): name a "
                "Secret in credentialsSecret",
            )
        if isinstance(error, NotFoundError) or status == 404:
            return WeightsError(ExitCode.NOT_FOUND, f"there is no {self.where} (404: {said}): check bucket and prefix")
        if isinstance(error, UnauthenticatedError | PermissionDeniedError) or status in (400, 401, 403):
            return WeightsError(
                ExitCode.UNAUTHORIZED,
                f"{self.where} may not be read ({said}): check credentialsSecret, and that its user may list and get",
            )
        if isinstance(error, PreconditionError):
            return BrokenTransferError(ExitCode.NETWORK, f"{self.where} changed while it was fetched")
        if "certificate" in text or "unknownissuer" in text:
            return WeightsError(
                ExitCode.TLS,
                f"no trusted connection to {self.service}: {said}. For a certificate of your own, mount it by "
                "spec.template and set SSL_CERT_FILE",
            )
        if "credential" in text or "metadata" in text or "oauth" in text or "decode" in text:
            return WeightsError(
                ExitCode.UNAUTHORIZED,
                f"no credentials for {self.where} ({said}): name a Secret in credentialsSecret",
            )
        return BrokenTransferError(ExitCode.NETWORK, f"{self.where} could not be reached: {said}")


def open_s3(said: S3Source, environment: Mapping[str, str]) -> Bucket:
    """A prefix of an S3 bucket; credentials are found in the environment, as AWS's own tools do.

    Raises WeightsError where the Secret that is named has no keys: it would pass for none.
    """
    where = _address("s3", said.bucket, said.prefix)
    settings: dict[str, str] = {"region": said.region or environment.get("AWS_REGION") or "us-east-1"}
    client: ClientConfig = dict(_CLIENT)  # type: ignore[assignment]  # a copy of the same keys
    if said.endpoint:
        settings["endpoint"] = said.endpoint
        client["allow_http"] = said.endpoint.startswith("http://")
    # A Secret that was made of files has line breaks at its values' ends, which no request can carry.
    keys = {name: environment.get(name, "").strip() for name in _KEYS}
    missing = [name for name, value in keys.items() if not value]
    if said.credentials_secret and missing:
        raise WeightsError(
            ExitCode.UNAUTHORIZED,
            f"no credentials for {where}: Secret {said.credentials_secret!r} of credentialsSecret has no "
            f"{' and no '.join(missing)}: name its keys so",
        )
    if not missing:
        settings |= {name.removeprefix("AWS_").lower(): value for name, value in keys.items()}
    store = S3Store(said.bucket, client_options=client, retry_config=_RETRY, **settings)  # type: ignore[arg-type]
    return Bucket(store, said.prefix.strip("/"), where, said.endpoint or "S3", credentials_key(*keys.values()))


def open_gcs(bucket: str, prefix: str, key: str | None) -> Bucket:
    """A prefix of a Google Cloud Storage bucket; `key` is a service account's JSON, absent: of the workload itself."""
    client: ClientConfig = dict(_CLIENT)  # type: ignore[assignment]  # a copy of the same keys
    if key and '"http://' in key:
        client["allow_http"] = True
    settings = {"service_account_key": key} if key else {}
    try:
        store = GCSStore(bucket, client_options=client, retry_config=_RETRY, **settings)  # type: ignore[arg-type]
    except BaseError as error:
        raise WeightsError(
            ExitCode.INVALID_SOURCE, f"the Secret of gs://{bucket} holds no service account key in JSON: {_root(error)}"
        ) from error
    return Bucket(store, prefix.strip("/"), _address("gs", bucket, prefix), "GCS", credentials_key(key))


def _address(scheme: str, bucket: str, prefix: str) -> str:
    return f"{scheme}://{bucket}/{prefix.strip('/')}".rstrip("/")


def _status(error: Exception) -> int | None:
    """The HTTP status where the store answered one: a listing's errors are not told apart by their classes."""
    found = re.search(r"status code: (\d{3})", str(error))
    return int(found[1]) if found else None


def _root(error: Exception) -> str:
    """The first line that says something; obstore appends the whole chain for debugging."""
    text = str(error).partition("Debug source")[0]
    found = re.search(r"<Message>([^<]+)</Message>", text)
    return found[1] if found else " ".join(text.split())[:300]
