"""Scores in Daft: ``frame = captious.compat.daft.score(frame, ["bleu", "cider_d"])``.

One scorer per worker (Daft 0.7 or later); all scores come as one struct, which is then unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from captious.batch import Scorer


def score(
    frame: Any,
    metrics: str | Sequence[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    df: str = "coco-val",
    device: str | None = None,
    workers: int | None = None,
) -> Any:
    """Return a Daft frame with one column per score, signature and error.

    Args:
        frame: a ``daft.DataFrame``.
        metrics: names or specs.
        columns: which column holds what; see :class:`captious.batch.Scorer`.
        df: document frequencies.
        device: where networks run.
        workers: how many workers hold a scorer; Daft decides if None.
    """
    import daft

    made = Scorer(metrics, columns, df, device)
    names = list(frame.column_names)
    struct = daft.DataType.from_arrow_type(pa.struct(made.fields))

    @daft.cls(max_concurrency=workers)
    class Scoring:
        def __init__(self) -> None:
            self.scorer = made

        @daft.method.batch(return_dtype=struct)  # type: ignore[untyped-decorator]
        def scores(self, *series: Any) -> Any:
            held = {n: s.to_arrow() for n, s in zip(names, series, strict=True)}
            table = self.scorer(pa.table(held)).select([f.name for f in made.fields])
            return table.to_struct_array().combine_chunks()

    packed = frame.with_column("_captious", Scoring().scores(*(frame[name] for name in names)))
    for field in made.fields:
        packed = packed.with_column(field.name, packed["_captious"].get(field.name))
    return packed.exclude("_captious")
