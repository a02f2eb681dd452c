"""Operators for Data-Juicer: one call of the scorer and one forward pass per batch of samples.

Name this file in the configuration::

    custom_operator_paths: ["<captious>/compat/data_juicer.py"]
    process:
      - captious_filter: {metrics: [fit], score: fit, min_score: 0.3}
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from data_juicer.ops.base_op import OPERATORS, Filter, Mapper
from data_juicer.utils.constant import Fields

from captious.batch import Scorer


def _scored(scorer: Scorer, samples: dict[str, Any], text: str, images: str) -> pa.Table:
    columns: dict[str, Any] = {"caption": samples[text]}
    if "references" in samples:
        columns["references"] = samples["references"]
    if images in samples:  # a list of pictures per sample: the first is the caption's
        columns["image"] = [listed[0] if listed else None for listed in samples[images]]
    return scorer(pa.table(columns))


@OPERATORS.register_module("captious_mapper")
class CaptiousMapper(Mapper):  # type: ignore[misc]
    """Adds one column per score."""

    _batched_op = True

    def __init__(self, metrics: Any = None, df: str = "coco-val", *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.scorer = Scorer(metrics, None, df)

    def process_batched(self, samples: dict[str, Any], *args: Any, **kw: Any) -> dict[str, Any]:
        """Score a batch."""
        table = _scored(self.scorer, samples, self.text_key, self.image_key)
        return samples | {f.name: table[f.name].to_pylist() for f in self.scorer.fields}


@OPERATORS.register_module("captious_filter")
class CaptiousFilter(Filter):  # type: ignore[misc]
    """Keeps samples whose score lies between two bounds; those without a score go."""

    _batched_op = True

    def __init__(self, metrics: Any = None, score: str = "", min_score: float = float("-inf"),
                 max_score: float = float("inf"), df: str = "coco-val", *args: Any,
                 **kw: Any) -> None:  # fmt: skip
        super().__init__(*args, **kw)
        self.scorer = Scorer(metrics, None, df)
        self.score = score or self.scorer.names[0]
        self.low, self.high = min_score, max_score

    def compute_stats_batched(self, samples: Any, *args: Any, **kw: Any) -> Any:
        """Write the scores into the statistics of every sample."""
        table = _scored(self.scorer, samples, self.text_key, self.image_key)
        for name in self.scorer.names:
            for stats, value in zip(samples[Fields.stats], table[name].to_pylist(), strict=True):
                stats[name] = value
        return samples

    def process_batched(self, samples: Any, *args: Any, **kw: Any) -> Any:
        """Tell which samples stay."""
        return [self.low <= stats[self.score] <= self.high for stats in samples[Fields.stats]]
