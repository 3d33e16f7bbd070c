"""What each Triton version can do. The version in an image decides what may be rendered for it and passed to it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Final, Self

from llmservice.repository.errors import UnknownTritonVersionError

_VERSION = re.compile(r"^v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.+-]?[A-Za-z][\w.+-]*)?$")


@dataclass(frozen=True)
class TritonFeatures:
    """What one Triton version knows. Flags are False where passing or using the feature would fail.

    `version` is the known version that answers for the one asked for, `asked`: the nearest that is not newer.
    """

    version: str = "2.51.0"
    asked: str = "2.51.0"
    gate: bool = False
    """Our gate and engines were measured on it. Stock backends also run on older ones."""
    decoupled_cancellation: bool = False
    """A decoupled Python model sees `is_cancelled()` (server 23.10)."""
    custom_metrics: bool = False
    """`pb_utils.MetricFamily` with counters and gauges (server 23.05)."""
    histogram_metrics: bool = False
    """`pb_utils.MetricFamily` with `HISTOGRAM` (server 24.08)."""
    restricted_apis: bool = False
    """`--http-restricted-api` and `--grpc-restricted-protocol` (server 23.04, HTTP 23.09)."""
    response_cache: bool = False
    """`--cache-config` and `response_cache` (server 23.03)."""
    first_response_histogram: bool = False
    """`--metrics-config histogram_latencies=true`, `nv_inference_first_response_histogram_ms` (server 25.01)."""
    is_ready_hook: bool = False
    """`TritonPythonModel.is_ready()` feeds model readiness (core#461, begun in November 2025)."""
    allow_client_shm: bool = False
    """The flag `--allow-client-shm` exists, and client shared memory is off without it (server#8721, April 2026)."""

    @classmethod
    def for_version(cls, version: str) -> Self:
        """The features of Triton `version`, such as `2.51.0`; those of the nearest older known one when it is new.

        Raises UnknownTritonVersionError for text that is no version and for one older than every known version.
        """
        asked = parse_version(version)
        known = [row for row in FEATURE_TABLE if parse_version(row) <= asked]
        if not known:
            raise UnknownTritonVersionError(
                f"Triton {version} is older than {OLDEST_VERSION}, the oldest version that this operator knows: "
                f"use an image with Triton {OLDEST_VERSION} (24.08) or later"
            )
        enabled: dict[str, bool] = {feature: True for row in known for feature in FEATURE_TABLE[row]}
        return cls(version=known[-1], asked=version, **enabled)


FEATURE_TABLE: Final[dict[str, tuple[str, ...]]] = {
    "2.49.0": (
        "decoupled_cancellation",
        "custom_metrics",
        "histogram_metrics",
        "restricted_apis",
        "response_cache",
    ),
    "2.51.0": ("gate",),
    "2.54.0": ("first_response_histogram",),
    "2.67.0": ("is_ready_hook",),
    "2.69.0": ("allow_client_shm",),
    "2.71.0": (),
}
"""What each version added, oldest first. Where only a merge date is known, the first release that surely has it."""

OLDEST_VERSION: Final = next(iter(FEATURE_TABLE))
OLDEST_GATE_VERSION: Final = next(version for version, added in FEATURE_TABLE.items() if "gate" in added)


def feature_names() -> tuple[str, ...]:
    """Every feature the table may name."""
    return tuple(field.name for field in fields(TritonFeatures) if field.name not in ("version", "asked"))


def parse_version(version: str) -> tuple[int, int, int]:
    """(major, minor, patch). Raises UnknownTritonVersionError for anything else."""
    match = _VERSION.match(version)
    if not match:
        raise UnknownTritonVersionError(
            f"{version!r} is not a Triton version: write the server's own version such as '2.51.0', "
            "not the container's such as '24.10'"
        )
    major, minor, patch = match.groups()
    if int(major) >= 20:
        raise UnknownTritonVersionError(
            f"{version!r} looks like a container tag: write the server version in it, such as '2.51.0' for 24.10"
        )
    return int(major), int(minor), int(patch or 0)
