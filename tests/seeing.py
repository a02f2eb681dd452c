"""A metric with its region features at hand, for tests that call metrics without the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from captious.engine.evidence import given, region_handle
from captious.types import CaptionSet, Evidence, Sample


class Seeing:
    """Calls the metric with samples whose evidence holds one region store."""

    def __init__(self, metric: Any, regions: Any) -> None:
        self.metric, self.regions = metric, regions

    def __getattr__(self, name: str) -> Any:
        return getattr(self.metric, name)

    def but(self, regions: Any = None, **changes: Any) -> Seeing:
        """The same with other parameters or features."""
        return Seeing(replace(self.metric, **changes), regions or self.regions)

    @property
    def evidence(self) -> Evidence:
        return Evidence(regions=(region_handle(self.regions),))

    def seen(self, samples: CaptionSet) -> CaptionSet:
        return replace(samples, evidence=self.evidence)

    def given(self, samples: CaptionSet) -> CaptionSet:
        return given(samples, regions=self.regions)

    def prepare(self, samples: CaptionSet) -> Any:
        return self.metric.prepare(self.seen(samples))

    def stats(self, samples: CaptionSet, context: Any) -> Any:
        return self.metric.stats(self.seen(samples), context)

    def explain(self, sample: Sample, context: Any) -> Any:
        return self.metric.explain(replace(sample, evidence=self.evidence), context)
