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


def schema(frame_schema: str, scorer: Scorer) -> str:
    """Return the schema (DDL) of the result, given that of the input."""
    added = [f"`{f.name}` {'double' if pa.types.is_floating(f.type) else 'string'}"
             for f in scorer.fields]  # fmt: skip
    return ", ".join([frame_schema, *added])


def score(
    frame: Any,
    metrics: str | Sequence[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    df: str = "coco-val",
    device: str | None = None,
) -> Any:
    """Return a Spark frame with one column per score, signature and error."""
    scorer = Scorer(metrics, columns, df, device)
    fields = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in frame.schema.fields)
    return frame.mapInArrow(ScoreBatches(scorer), schema(fields, scorer))
