"""A metrics page of one pod: its series and their values, as the exporter gave them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from llmservice.signals.series import SeriesId


@dataclass(frozen=True)
class Page:
    """What stood on the page."""

    series: tuple[tuple[SeriesId, float], ...]

    @classmethod
    def parse(cls, text: str) -> Page:
        """The page in `text`, Prometheus' text format. Raises ValueError for anything else."""
        families = text_string_to_metric_families(text)
        samples = (sample for family in families for sample in family.samples)
        return cls(tuple((SeriesId.of(sample.name, sample.labels), sample.value) for sample in samples))

    def values(self, names: Collection[str]) -> Iterator[tuple[SeriesId, float]]:
        """The series of these names."""
        return ((series, value) for series, value in self.series if series.name in names)
