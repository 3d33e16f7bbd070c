"""What Triton answers, typed. Durations are nanoseconds and counts are since the model was loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

READY: Final = "READY"


@dataclass(frozen=True)
class ModelState:
    """One row of the repository index. A model that was never loaded has empty `version`, `state` and `reason`."""

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""

    @property
    def ready(self) -> bool:
        """Whether this version serves."""
        return self.state == READY


@dataclass(frozen=True)
class Total:
    """How often something happened, and how long all of it took together."""

    count: int = 0
    ns: int = 0

    @classmethod
    def of(cls, message: Any) -> Self:
        """From Triton's `StatisticDuration`."""
        return cls(message.count, message.ns)


@dataclass(frozen=True)
class BatchStatistics:
    """Executions of one batch size."""

    batch_size: int
    compute_infer: Total


@dataclass(frozen=True)
class ModelStatistics:
    """Triton's statistics of one version of a model."""

    name: str
    version: str
    inference_count: int
    execution_count: int
    last_inference_ms: int
    success: Total
    fail: Total
    queue: Total
    compute_infer: Total
    batches: tuple[BatchStatistics, ...]

    @classmethod
    def of(cls, message: Any) -> Self:
        """From Triton's `ModelStatistics`."""
        stats = message.inference_stats
        return cls(
            name=message.name,
            version=message.version,
            inference_count=message.inference_count,
            execution_count=message.execution_count,
            last_inference_ms=message.last_inference,
            success=Total.of(stats.success),
            fail=Total.of(stats.fail),
            queue=Total.of(stats.queue),
            compute_infer=Total.of(stats.compute_infer),
            batches=tuple(BatchStatistics(b.batch_size, Total.of(b.compute_infer)) for b in message.batch_stats),
        )
