"""Scores in Spark: ``frame = captious.compat.spark.score(frame, ["bleu", "cider_d"])``.

Uses ``DataFrame.mapInArrow`` (Spark 3.3 or later): executors hand Arrow batches to one scorer each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from captious.batch import Scorer


@dataclass(frozen=True)
class ScoreBatches:
    """The function that Spark calls on every partition."""

    scorer: Scorer

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield every batch with its scores."""
        for batch in batches:
            yield from self.scorer(pa.Table.from_batches([batch])).to_batches()


def score(
    frame: Any,
    metrics: str | Sequence[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    df: str = "coco-val",
    device: str | None = None,
) -> Any:
    """Return a Spark frame with one column per score, signature and error.

    As in :class:`captious.batch.Scorer`, a column that has the name of a score is replaced. Workers
    must run a Python that has captious: ``PYSPARK_PYTHON`` names it.
    """
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    scorer = Scorer(metrics, columns, df, device)
    added = [
        StructField(f.name, DoubleType() if pa.types.is_floating(f.type) else StringType())
        for f in scorer.fields
    ]
    names = {field.name for field in added}
    kept = [field for field in frame.schema.fields if field.name not in names]
    return frame.mapInArrow(ScoreBatches(scorer), StructType([*kept, *added]))
